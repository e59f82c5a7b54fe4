// runtime/sampling/token_info.hpp: a token of a sequence with its log probabilities.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mortise {

// Log probabilities are the raw log-softmax, before penalties, temperature and masks.
struct TokenInfo {
  std::int32_t id = 0;
  float logprob = 0.0f;
  std::int32_t rank = 0;  // 1 is the most likely; 0: no log probabilities were requested
  // The token was an accepted draft of a proposer or of a prediction. This and replaced_draft are the only fields that
  // depend on what else runs.
  bool accepted_draft = false;
  // Another draft for its place was rejected.
  bool replaced_draft = false;
  std::vector<std::pair<std::int32_t, float>> top;  // (id, log probability), most likely first
};

}  // namespace mortise
