// sample_token.hpp: draws one token from one row of logits; docs/numerics.md, "Sampling", is the procedure.
// In short: edits (bias, penalties), clean() (head_reduce.hpp), allowed set, division by the temperature, min_p, top_k,
// top_p, then the arg max of logit / temperature + keyed noise over what is left; the lowest id wins ties.
// A row's result depends on that row alone.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// An edit of one logit, laid out as mortise_logit_edit, which says what it does.
struct LogitEdit {
  std::int32_t token;
  float bias, repetition, subtract;
};

struct SampleRow {
  const float* logits;  // [vocab_size], not changed
  std::size_t vocab_size;
  float temperature;   // not above 0: arg max, the filters have no say
  std::int32_t top_k;  // <= 0: off
  float top_p;         // >= 1: off
  float min_p;         // <= 0: off
  std::uint64_t key;
  std::uint64_t position;
  std::size_t num_edits;  // of different tokens, each below vocab_size, in any order
  const LogitEdit* edits;
  const std::uint32_t* allowed;  // [ceil(vocab_size / 32)] bit mask, or null: all
};

// A token that may survive a filter. Keys ascend in the order (logit / temperature descending, id ascending).
struct SampleCandidate {
  std::uint64_t key;     // descending code of the logit << 32 | id
  std::uint64_t weight;  // 1 for top_k; round(exp(x - max) 2^32) for top_p
};

struct SampleScratch {
  float* row;                   // [vocab_size]
  SampleCandidate* candidates;  // [vocab_size + 16]
};

struct SampleKernels {
  // *token = -1 when no token is left: every logit is -infinity, banned or not allowed. `logprob`, unless null, takes
  // the log of the token's probability among the tokens left: 0 for arg max, -infinity where there is no token.
  void (*sample)(const SampleRow& row, const SampleScratch& scratch, std::int32_t* token, float* logprob);
  // noise[i] = the noise of token first_id + i. For tests and for proposers that sample with the target's key.
  void (*noise)(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::size_t n, float* noise);
};

}  // namespace mortise::cpu
