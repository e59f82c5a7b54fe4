// runtime/sampling/edits.hpp: penalties, biases and bans of one row, as the per-token edits that a device's `sample`
// takes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sampling/params.hpp"

namespace mortise {

// One edited logit; see mortise_sample_args: l + bias, then the repetition factor, then - subtract.
struct LogitEdit {
  std::int32_t token = 0;
  float bias = 0.0f;
  float repetition = 1.0f;
  float subtract = 0.0f;
};

// Counts what a sequence has used, token by token, so that a row's edits cost what differs and not the whole history.
class TokenCounts {
 public:
  void add_prompt(std::int32_t token) { ++counts_[token].prompt; }
  void add_generated(std::int32_t token) { ++counts_[token].generated; }

  struct Count {
    std::int32_t prompt = 0;
    std::int32_t generated = 0;
  };
  const std::map<std::int32_t, Count>& all() const { return counts_; }  // ordered, as edits are

 private:
  std::map<std::int32_t, Count> counts_;
};

bool uses_counts(const SamplingParams& params);

// The edits of a row, token ids ascending. `drafts` are the tokens between the counted ones and the row, which count as
// generated. `banned`, ascending, may not be drawn in this row (end tokens before min_tokens). Penalties follow vLLM:
// repetition counts prompt and output, frequency and presence the output alone.
std::vector<LogitEdit> make_edits(const SamplingParams& params, const TokenCounts& counts,
                                  std::span<const std::int32_t> drafts, std::span<const std::int32_t> banned);

}  // namespace mortise
