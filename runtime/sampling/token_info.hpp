// runtime/sampling/token_info.hpp: a token with what the model said of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mortise {

// Log probabilities are the raw log-softmax, before penalties, temperature and masks.
struct TokenInfo {
  std::int32_t id = 0;
  float logprob = 0.0f;
  std::int32_t rank = 0;  // 1 is the most likely; 0: log probabilities were not asked for
  // It was drafted, by a proposer or in a prediction, and stood. Unlike all else here but the next it depends on what
  // else runs.
  bool accepted_draft = false;
  // Another token was drafted for its place and rejected.
  bool replaced_draft = false;
  std::vector<std::pair<std::int32_t, float>> top;  // (id, log probability), most likely first
};

}  // namespace mortise
