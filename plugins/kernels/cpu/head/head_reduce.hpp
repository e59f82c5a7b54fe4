// plugins/kernels/cpu/head/head_reduce.hpp: log-sum-exp, rank of the target and the first n tokens of one row of
// logits, without keeping the row.
//
//   lse = log(sum_t exp(x[t])),  rank = number of tokens before the target,  x = clean(logits)
//   logits  f32 [n]: a slice of the vocabulary
//
// The caller passes the slices in ascending order and keeps the state between calls. clean(): NaN counts as -infinity,
// +infinity as the largest finite number, -0 and denormals as +0. So every comparison is a total order, and no sum is
// NaN. Tokens are ordered by (logit descending, id ascending).
// Order: sums within slices of kVocabSlice columns, merged left to right. The bits depend neither on the number of
// slices in a call nor on other rows.
// Cost: memory bound; log-sum-exp reads the logits twice, the second time from the first-level cache.
// Errors: none. Source: online softmax, arXiv:1805.02867.
// Oracle: reference/head_reduce.hpp, bitwise (head/head_reduce_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// Columns of one partial sum. Part of the numerics id: slices start at multiples of it. 8 KiB, so that the second pass
// over a slice reads it from the first-level cache.
constexpr std::size_t kVocabSlice = 2048;

struct HeadKernels {
  // *out = clean(*logit).
  void (*clean)(const float* logit, float* out);
  // Folds `n` logits into the running maximum and sum of exp(logit - maximum). `n` is a number of whole slices, or
  // reaches the end of the vocabulary. The state begins as max = -infinity, sum = 0; in the end log-sum-exp = max +
  // log(sum). `next` is the slice that the caller reads afterwards; it is prefetched. Without one, pass `logits`.
  void (*log_sum_exp)(const float* logits, std::size_t n, const float* next, float* max, float* sum);
  // *lse = max + log(sum).
  void (*log_of_sum)(float max, float sum, float* lse);
  // Counts the tokens in first_id .. first_id + n - 1 that rank above `target`: those with a larger clean logit, or
  // with an equal one and a smaller id. REQUIRES: target_logit is clean.
  std::int32_t (*count_before)(const float* logits, std::size_t n, std::int32_t first_id, std::int32_t target,
                               float target_logit);
  // Merges the tokens first_id .. first_id + n - 1 into the `top_n` first tokens seen so far. Unused entries are at the
  // end and have id -1; before the first slice all are unused. REQUIRES: ids already in the list are below first_id.
  void (*top_n)(const float* logits, std::size_t n, std::int32_t first_id, std::size_t top_n, std::int32_t* ids,
                float* top_logits);
};

}  // namespace mortise::cpu
