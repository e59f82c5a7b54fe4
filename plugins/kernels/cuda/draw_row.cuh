// plugins/kernels/cuda/draw_row.cuh: the arg max of logit + noise over a part of a row (docs/numerics.md, "Sampling",
// step 8). Nearly all tokens cannot win, and an upper bound of their score shows it: Philox's word without a logarithm,
// or, far below the best score, kMostNoise without Philox. Ties are safe, since a token is dropped only if its bound is
// below the best score, and tokens with equal scores are compared by packed_best.
// Oracle: kernels/cpu/reference/sample_token.hpp, bitwise (tests/plugins/devices/cuda/head_test.cpp).
#pragma once

#include "kernels/cuda/noise.cuh"
#include "kernels/cuda/noise_bound.hpp"
#include "kernels/cuda/sample_row.cuh"

namespace mortise::cuda {

// Scores of a row's tokens. A value in registers: each thread has its own, equal in all threads of the block.
class Drawer {
 public:
  __device__ Drawer(const SampleArgs& args, std::int64_t r, const Filtered& filtered)
      : words_(args.keys[r], static_cast<std::uint64_t>(args.positions[r])),
        cut_(filtered.cut),
        bound_(filtered.bound) {
    lowest_ = cut_.code == kLastCode ? bound_ : fmaxf(bound_, logit_of_code(cut_.code));
  }

  // The smallest prepared logit of a token that may reach `score`.
  __device__ float lowest_for(float score) const {
    constexpr float kMore = 23.0f;
    const float x = __fadd_rn(score, -kMore);
    // Where floats are so far apart that kMore vanishes, no logit is hopeless for this reason.
    return __fadd_rn(x, kMostNoise) < score ? fmaxf(lowest_, x) : lowest_;
  }

  // An upper bound of the score of a token whose prepared logit is at most x.
  __device__ __forceinline__ float at_most(float x, int id) const {
    return __fadd_rn(x, noise_at_most(words_.word(id)));
  }

  // packed_best of the token's score, or 0 if the token cannot be drawn. x: its prepared logit.
  __device__ unsigned long long offer(float x, int id) const {
    if (!(x > no_logit() && x >= bound_)) return 0;
    if (!cut_.keeps(descending_code(x), static_cast<std::uint32_t>(id))) return 0;
    const float noise = gumbel(words_.word(id));
    return packed_best(__fadd_rn(__fadd_rn(x, noise), 0.0f), id);  // + 0: only one zero
  }

 private:
  RowWords words_;
  Cut cut_;
  float bound_, lowest_;
};

// In shared memory.
template <int kThreads>
struct DrawScratch {
  unsigned long long best;  // packed_best of the scores so far, of this block's tokens and of others
  float tops[kThreads / 32];
};

// The score of `best`, which other threads may raise meanwhile: an earlier value drops fewer tokens and is as good. No
// token yet: -infinity.
__device__ __forceinline__ float best_score(const unsigned long long& best) {
  const unsigned long long now = *static_cast<const volatile unsigned long long*>(&best);
  return now == 0 ? no_logit() : score_of_best(now);
}

// Offers the tokens [begin, end), at most kThreads * kEach, and raises scratch.best to the best score.
// x_at_most(id) bounds the prepared logit from above; NaN and -infinity: it is -infinity. prepared(id) is that logit.
// With `first`, the block begins with the token of the largest bound, so that the others meet a high score at once.
// All threads of the block call it; `first` is equal in all. kEach is even.
template <int kThreads, int kEach, class AtMost, class Prepared>
__device__ __forceinline__ void draw_part(const Drawer& drawer, int begin, int end, bool first,
                                          DrawScratch<kThreads>& scratch, AtMost x_at_most, Prepared prepared) {
  const int own = begin + static_cast<int>(threadIdx.x);
  float bounds[kEach];
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int id = own + j * kThreads;
    bounds[j] = id < end ? x_at_most(id) : no_logit();
  }
  const float lowest = drawer.lowest_for(best_score(scratch.best));
  float top = no_logit();
#pragma unroll
  for (int j = 0; j < kEach; j += 2) {  // two at a time: their rounds of Philox overlap
    const bool one = bounds[j] >= lowest, other = bounds[j + 1] >= lowest;
    float a = no_logit(), b = no_logit();
    if (one || other) {
      a = drawer.at_most(bounds[j], own + j * kThreads);
      b = drawer.at_most(bounds[j + 1], own + (j + 1) * kThreads);
    }
    bounds[j] = one ? a : no_logit();
    bounds[j + 1] = other ? b : no_logit();
    top = fmaxf(top, fmaxf(bounds[j], bounds[j + 1]));
  }
  // Offers this thread's tokens whose bound reaches `bar`, the largest bound first.
  const auto offer_from = [&](float bar) {
    while (top >= bar && top > no_logit()) {
      int at = 0;
#pragma unroll
      for (int j = 1; j < kEach; ++j) at = bounds[j] == top ? j : at;
      const int id = own + at * kThreads;
      const unsigned long long offered = drawer.offer(prepared(id), id);
      if (offered > *static_cast<volatile unsigned long long*>(&scratch.best)) atomicMax(&scratch.best, offered);
      bar = fmaxf(bar, best_score(scratch.best));
      top = no_logit();
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        bounds[j] = j == at ? no_logit() : bounds[j];
        top = fmaxf(top, bounds[j]);
      }
    }
  };
  if (first) {
    const float block_top = block_max<kThreads>(top, scratch.tops);
    offer_from(fmaxf(block_top, best_score(scratch.best)));
    __syncthreads();
  }
  offer_from(best_score(scratch.best));
}

}  // namespace mortise::cuda
