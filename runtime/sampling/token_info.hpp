// runtime/sampling/token_info.hpp: a token of a sequence with its log probabilities.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mortise {

// How a token relates to the draft for its place, of a proposer or of a prediction.
enum class DraftOutcome {
  kNone,       // there was no draft for its place
  kAccepted,   // it is the draft
  kRecovered,  // the draft was another token and was rejected
};

// Log probabilities are the raw log-softmax, before penalties, temperature and masks.
struct TokenInfo {
  std::int32_t id = 0;
  float logprob = 0.0f;
  std::int32_t rank = 0;                            // 1 is the most likely; 0: no log probabilities were requested
  DraftOutcome draft = DraftOutcome::kNone;         // the only field that depends on what else runs
  std::vector<std::pair<std::int32_t, float>> top;  // (id, log probability), most likely first
};

}  // namespace mortise
