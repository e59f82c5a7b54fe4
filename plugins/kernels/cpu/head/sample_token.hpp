// plugins/kernels/cpu/head/sample_token.hpp: draws one token from one row of logits (docs/numerics.md, "Sampling").
//
//   x = clean(edits(logits)) of allowed tokens / temperature;  kept = top_p(top_k(min_p(x)))
//   token = arg max over kept of x + noise(key, position, token); the lowest id wins ties
//
// Shapes: see SampleRow.
// Order: integer weights and maxima have none; everything else is per token. Rows are independent.
// Cost: a few passes over the row; only tokens that can still win need noise.
// Errors: token -1 where no token can be drawn.
// Source: noise from Philox4x32-10, Salmon et al., SC 2011; top-p, arXiv:1904.09751; min-p, arXiv:2407.01082.
// Oracle: reference/sample_token.hpp, bitwise (head/sample_token_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// One edit of one logit. Same layout as mortise_logit_edit, which specifies its effect.
struct LogitEdit {
  std::int32_t token;
  float bias, repetition, subtract;
};

struct SampleRow {
  const float* logits;  // [vocab_size], not changed
  std::size_t vocab_size;
  float temperature;   // <= 0 or NaN: arg max without filters or noise
  std::int32_t top_k;  // <= 0: off
  float top_p;         // >= 1: off
  float min_p;         // <= 0: off
  std::uint64_t key;
  std::uint64_t position;
  std::size_t num_edits;  // edits of different tokens, each below vocab_size, in any order
  const LogitEdit* edits;
  const std::uint32_t* allowed;  // [ceil(vocab_size / 32)] bit mask, or null: all
};

// A token that may survive a filter. Ascending keys are the order (logit / temperature descending, id ascending).
struct SampleCandidate {
  std::uint64_t key;     // descending code of the logit << 32 | id
  std::uint64_t weight;  // 1 for top_k; round(exp(x - max) 2^32) for top_p
};

struct SampleScratch {
  float* row;                   // [vocab_size]
  SampleCandidate* candidates;  // [vocab_size + 16]
};

struct SampleKernels {
  // *token is -1 when no token is left: each is banned, not allowed, or has the logit -infinity. `logprob`, unless
  // null, is the log of the token's probability among the tokens left: 0 for arg max, -infinity if there is no token.
  void (*sample)(const SampleRow& row, const SampleScratch& scratch, std::int32_t* token, float* logprob);
  // weights[id] = round(exp(x - X) 2^32) of each token that the filters leave, 0 of all others. [vocab_size]
  // REQUIRES: temperature > 0.
  void (*weigh)(const SampleRow& row, const SampleScratch& scratch, std::uint64_t* weights);
  // noise[i] = the noise of token first_id + i. For tests and for proposers that sample with the target's key.
  void (*noise)(std::uint64_t key, std::uint64_t position, std::int32_t first_id, std::size_t n, float* noise);
};

}  // namespace mortise::cpu
