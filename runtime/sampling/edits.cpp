#include "sampling/edits.hpp"

#include <limits>

namespace mortise {

bool uses_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

std::vector<LogitEdit> make_edits(const SamplingParams& params, const TokenCounts& counts,
                                  std::span<const std::int32_t> banned) {
  std::map<std::int32_t, LogitEdit> edits;  // ordered: the device wants ascending ids
  for (const auto& [token, bias] : params.logit_bias) edits[token].bias = bias;
  if (uses_counts(params)) {
    for (const auto& [token, count] : counts.all()) {
      LogitEdit& edit = edits[token];
      edit.repetition = params.repetition_penalty;
      if (count.generated > 0) {
        edit.subtract = params.frequency_penalty * static_cast<float>(count.generated) + params.presence_penalty;
      }
    }
  }
  for (std::int32_t token : banned) edits[token].bias = -std::numeric_limits<float>::infinity();
  std::vector<LogitEdit> result;
  result.reserve(edits.size());
  for (auto& [token, edit] : edits) {
    edit.token = token;
    result.push_back(edit);
  }
  return result;
}

}  // namespace mortise
