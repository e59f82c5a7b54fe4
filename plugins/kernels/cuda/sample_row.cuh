// plugins/kernels/cuda/sample_row.cuh: sampling of one row of logits (docs/numerics.md, "Sampling"): edits, the allowed
// set and the temperature; where min_p, top_k and top_p cut; the answer. A block works on one row, or a part of one.
#pragma once

#include "kernels/cuda/sample.hpp"
#include "kernels/cuda/select.cuh"

namespace mortise::cuda {

// For d up to this bound, exp(d) * 2^32 rounds to 0.
constexpr float kWeightlessBelow = -23.0f;

__device__ inline bool greedy(const SampleArgs& args, std::int64_t r) {
  return !(args.temperatures[r] > 0.0f);
}

// Applies an edit as mortise_logit_edit specifies.
__device__ inline float edited(const LogitEdit& edit, float l) {
  l = __fadd_rn(l, edit.bias);
  l = l > 0.0f ? __fdiv_rn(l, edit.repetition) : __fmul_rn(l, edit.repetition);
  return __fadd_rn(l, -edit.subtract);
}

// Applies the row's edits of the columns [begin, begin + width) to `slice`. Edits are in any order, so each slice reads
// all of them. Each token has at most one edit.
template <int kThreads>
__device__ inline void apply_edits(const SampleArgs& args, std::int64_t r, int begin, int width, float* slice) {
  const auto* const edits = reinterpret_cast<const int4*>(args.edits + args.edit_begins[r]);
  const int count = args.edit_counts[r];
  for (int e = static_cast<int>(threadIdx.x); e < count; e += kThreads) {
    const int4 words = edits[e];
    const int column = words.x - begin;
    if (column < 0 || column >= width) continue;
    const LogitEdit edit = {words.x, __int_as_float(words.y), __int_as_float(words.z), __int_as_float(words.w)};
    slice[column] = edited(edit, slice[column]);
  }
}

// Turns an edited logit into a prepared one: cleaned, -infinity if the token is not allowed, divided by the
// temperature. A value in registers: each thread has its own, equal in all threads of the block.
class Preparation {
 public:
  __device__ Preparation(const SampleArgs& args, std::int64_t r)
      : temperature_(args.temperatures[r]), divides_(!is_greedy() && temperature_ != 1.0f) {
    inverse_ = __frcp_rz(temperature_);
    const int mask = args.allowed_index == nullptr ? -1 : args.allowed_index[r];
    const std::int64_t words = (static_cast<std::int64_t>(args.vocab_size) + 31) / 32;
    if (mask >= 0) allowed_ = args.allowed_masks + mask * words;
  }

  __device__ bool is_greedy() const { return !(temperature_ > 0.0f); }  // a denormal is zero: -ftz
  __device__ bool allows_all() const { return allowed_ == nullptr; }
  __device__ bool allows(int id) const { return allows_all() || (allowed_[id / 32] >> (id % 32) & 1u) != 0; }

  __device__ float prepared(float logit, int id) const { return of_allowed(allows(id) ? logit : no_logit()); }

  // The same for a token that is allowed, or whose logit is -infinity.
  __device__ float of_allowed(float logit) const {
    const float x = clean(logit);
    return divides_ ? clean(__fdiv_rn(x, temperature_)) : x;
  }

  // The same for several tokens.
  template <int n>
  __device__ __forceinline__ void of_allowed(float (&x)[n]) const {
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = clean(x[j]);
    if (!divides_) return;
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = clean(__fdiv_rn(x[j], temperature_));
  }

  // An upper bound of of_allowed(logit) without a division; NaN or -infinity only if that is -infinity.
  // With y = inverse_, 1 - 2^-23 <= y * temperature <= 1, so p = f32(logit * y) is f32(logit / temperature) or nearer
  // to 0, by at most a factor of 1 - 2^-22. So p overflows only if that does. Where p is flushed to 0, the result may
  // be too small by 2^-105, much less than noise_at_most has to spare. REQUIRES: has_bound().
  __device__ __forceinline__ float at_most(float logit) const {
    const float p = __fmul_rn(logit, inverse_);
    return __fmaf_rn(magnitude(p), 0x1p-21f, p);
  }
  __device__ bool has_bound() const {
    return temperature_ >= 0x1p-60f && temperature_ <= 0x1p+60f;
  }

 private:
  const std::uint32_t* allowed_ = nullptr;
  float temperature_, inverse_;
  bool divides_;
};

// ceil(top_p * total), at least 1. top_p counts as a multiple of 2^-32.
__device__ inline unsigned long long needed_weight(float top_p, unsigned long long total) {
  const unsigned long long p = top_p > 0.0f ? weight_of(top_p) : 0;
  const unsigned long long low = p * (total & 0xffffffffu);
  const unsigned long long need = p * (total >> 32) + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
  return need == 0 ? 1 : need;
}

__device__ inline unsigned long long token_weight(float x, float row_max) {
  const float d = __fadd_rn(x, -row_max);
  return d >= kWeightlessBelow ? weight_of(exp(d)) : 0;
}

// The tokens that the filters leave: those >= `bound` that `cut` keeps. `total` is their weight, if it is wanted.
struct Filtered {
  Cut cut;
  float bound;
  unsigned long long total;
};

// Finds where the filters cut a prepared row. `row_max` is its largest logit.
template <int kThreads>
__device__ inline Filtered filter_row(const SampleArgs& args, std::int64_t r, const float* row, float row_max,
                                      SelectScratch& scratch) {
  const float min_p = args.min_ps[r], top_p = args.top_ps[r];
  const int k = args.top_ks[r];
  const float bound = min_p > 0.0f ? __fadd_rn(row_max, log(min_p < 1.0f ? min_p : 1.0f)) : no_logit();
  Cut cut = {kLastCode, kLastId};
  const auto left = [&](auto f) {  // calls f(x, code, id) for each token left so far
    for (int i = static_cast<int>(threadIdx.x); i < args.vocab_size; i += kThreads) {
      const float x = row[i];
      if (!(x > no_logit() && x >= bound)) continue;
      const std::uint32_t code = descending_code(x);
      if (cut.keeps(code, static_cast<std::uint32_t>(i))) f(x, code, static_cast<std::uint32_t>(i));
    }
  };
  if (k > 0 && k < args.vocab_size) {
    const auto need_of = [k](unsigned long long count) {
      return count > k ? static_cast<unsigned long long>(k) : 0ull;
    };
    cut = find_cut<kThreads, true>(scratch, row_max, need_of, [&](auto f) {
      left([&](float, std::uint32_t code, std::uint32_t id) { f(code, id, [] { return 1ull; }); });
    });
  }
  if (top_p < 1.0f) {
    const auto need_of = [top_p](unsigned long long total) { return needed_weight(top_p, total); };
    cut = find_cut<kThreads, false>(scratch, row_max, need_of, [&](auto f) {
      left([&](float x, std::uint32_t code, std::uint32_t id) {
        f(code, id, [=] { return token_weight(x, row_max); });
      });
    });
  }
  unsigned long long total = 0;
  if (args.logprobs != nullptr) {
    left([&](float x, std::uint32_t, std::uint32_t) { total += token_weight(x, row_max); });
    total = block_sum<kThreads>(total, scratch.warp_sums);
  }
  return {cut, bound, total};
}

// Writes a row's answer. `largest` and `best` are packed_best of the prepared logits and of the scores. `largest` and
// `row` matter for greedy rows and for log probabilities.
__device__ inline void write_row(const SampleArgs& args, std::int64_t r, unsigned long long largest,
                                 unsigned long long best, const Filtered& filtered, const float* row) {
  std::int32_t token = -1;
  float logprob = no_logit();
  if (largest != 0 && greedy(args, r)) {
    token = id_of_best(largest);
    logprob = 0.0f;
  } else if (best != 0) {
    token = id_of_best(best);
    if (args.logprobs != nullptr) {
      const float sum = __fmul_rn(__ull2float_rn(filtered.total), 0x1p-32f);
      logprob = __fadd_rn(__fadd_rn(row[token], -score_of_best(largest)), -log(sum));
    }
  }
  args.tokens[r] = token;
  if (args.logprobs != nullptr) args.logprobs[r] = logprob;
}

}  // namespace mortise::cuda
