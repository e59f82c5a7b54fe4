// select.cuh: where a prefix of the order (logit descending, id ascending) ends, without a sort: a radix search for the
// last token of the shortest prefix whose weights sum to `need`. Sums of integers have no order, so the cut is that of
// any sort. A block works on one row.
#pragma once

#include <cstdint>

#include "kernels/cuda/logits.cuh"

namespace mortise::cuda {

constexpr int kDigitBits = 11, kNumBins = 1 << kDigitBits;

// A place in the order: tokens at or before it are left. Ids beyond 31 bits do not exist.
struct Cut {
  std::uint32_t code, id;
  __device__ bool keeps(std::uint32_t c, std::uint32_t i) const { return c < code || (c == code && i <= id); }
};
constexpr std::uint32_t kLastCode = 0xffffffffu, kLastId = 0x7fffffffu;

struct SelectScratch {
  unsigned long long bins[kNumBins];
  unsigned long long warp_sums[32];
  std::uint32_t digit;
  unsigned long long before;
};

// The bin in which the running sum of `bins` first reaches `need`, and the sum before it. All threads get them.
template <int kThreads>
__device__ inline void find_bin(SelectScratch& s, unsigned long long need, std::uint32_t* digit,
                                unsigned long long* before) {
  constexpr int kEach = kNumBins / kThreads;
  static_assert(kEach >= 1 && kNumBins % kThreads == 0);
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32, warp = tid / 32;
  unsigned long long own = 0;
  for (int i = 0; i < kEach; ++i) own += s.bins[tid * kEach + i];
  unsigned long long sum = own;  // of this warp's threads up to this one
  for (int half = 1; half < 32; half *= 2) {
    const unsigned long long other = __shfl_up_sync(0xffffffffu, sum, half);
    if (lane >= half) sum += other;
  }
  if (lane == 31) s.warp_sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += s.warp_sums[w];
  unsigned long long at = sum - own;
  if (at < need && need <= sum) {
    for (int i = 0; i < kEach; ++i) {
      const unsigned long long bin = s.bins[tid * kEach + i];
      if (at + bin >= need) {
        s.digit = static_cast<std::uint32_t>(tid * kEach + i);
        s.before = at;
        break;
      }
      at += bin;
    }
  }
  __syncthreads();
  *digit = s.digit;
  *before = s.before;
}

// The cut after the shortest prefix that weighs `need`. `items(f)` calls f(code, id, weight) for the tokens of this
// thread; together the threads go through each token once, the same way every time.
// REQUIRES: 1 <= need <= the sum of all weights; tokens of one code weigh the same; with kUnitWeights that is 1.
template <int kThreads, bool kUnitWeights, class Items>
__device__ Cut select_cut(SelectScratch& s, unsigned long long need, Items items) {
  constexpr int kShifts[] = {21, 10, 0};  // of a 32-bit word: digits of 11, 11 and 10 bits
  std::uint32_t word[2] = {0, 0};         // of the cut: code, id
  for (int part = 0; part < 2; ++part) {
    for (int step = 0; step < 3; ++step) {
      const int shift = kShifts[step];
      const std::uint32_t digit_mask = step == 2 ? 0x3ffu : 0x7ffu;
      const std::uint32_t above = step == 0 ? 0u : ~0u << kShifts[step - 1];
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kNumBins; i += kThreads) s.bins[i] = 0;
      __syncthreads();
      items([&](std::uint32_t code, std::uint32_t id, unsigned long long weight) {
        if (part == 1 && code != word[0]) return;
        const std::uint32_t value = part == 0 ? code : id;
        if ((value & above) != (word[part] & above)) return;
        atomicAdd(&s.bins[value >> shift & digit_mask], weight);
      });
      __syncthreads();
      std::uint32_t digit;
      unsigned long long before;
      find_bin<kThreads>(s, need, &digit, &before);
      need -= before;
      word[part] |= digit << shift;
      // All that share these digits are left. Not if some may weigh nothing: they are not in the shortest prefix.
      if (s.bins[digit] == need && (kUnitWeights || part == 1 || step == 2)) {
        const std::uint32_t rest = ~(~0u << shift);
        return part == 0 ? Cut{word[0] | rest, kLastId} : Cut{word[0], (word[1] | rest) & kLastId};
      }
    }
  }
  return {word[0], word[1]};
}

}  // namespace mortise::cuda
