// head_reduce.hpp: what is taken from the logits of one row without keeping them: log-sum-exp, rank, the first n
// tokens. Called slice by slice over the vocabulary in ascending order, with state that the caller keeps; the bits do
// not depend on how many slices a call covers. Rows are independent.
//
// Every kernel sees a logit through clean(): NaN counts as -infinity, +infinity as the largest finite number, -0 and
// denormals as +0. So every comparison below is a total order, and no sum is NaN.
// The order of tokens is (logit descending, id ascending).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

// Columns of one partial sum. Part of the numerics id: log-sum-exp is summed within slices that start at multiples of
// it, and the slices are merged left to right. 8 KiB: the second pass over a slice reads it from L1.
constexpr std::size_t kVocabSlice = 2048;

struct HeadKernels {
  // *out = clean(*logit).
  void (*clean)(const float* logit, float* out);
  // Folds `n` logits, whole slices or the vocabulary's end, into the running maximum and sum of exp(logit - maximum).
  // The state before the first slice is max = -infinity, sum = 0; log-sum-exp = max + log(sum). `next`: a slice that
  // the caller reads then, which is asked for meanwhile; these logits, if there is none.
  void (*log_sum_exp)(const float* logits, std::size_t n, const float* next, float* max, float* sum);
  // *lse = max + log(sum).
  void (*log_of_sum)(float max, float sum, float* lse);
  // How many of the tokens first_id .. first_id + n - 1 come before token `target`, whose clean logit is given.
  std::int32_t (*count_before)(const float* logits, std::size_t n, std::int32_t first_id, std::int32_t target,
                               float target_logit);
  // Merges the tokens first_id .. first_id + n - 1 into the `top_n` first tokens seen so far. Unused entries, at the
  // end, have id -1; before the first slice all are unused. REQUIRES: ids already there are below first_id.
  void (*top_n)(const float* logits, std::size_t n, std::int32_t first_id, std::size_t top_n, std::int32_t* ids,
                float* top_logits);
};

}  // namespace mortise::cpu
