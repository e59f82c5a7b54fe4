// plugins/kernels/cuda/select.cuh: finds where a prefix of the order (logit descending, id ascending) ends, without a
// sort: at the last token of the shortest prefix whose weights sum to at least `need`. Weights are integers, so the
// order of additions does not matter, and the cut is the one that any sort would give. A thread block works on one row.
// find_cut puts tokens into bins by their distance from the largest logit and then examines one bin. If that bin has
// too many tokens, select_cut searches digit by digit instead.
#pragma once

#include <cstdint>

#include "kernels/cuda/logits.cuh"

namespace mortise::cuda {

constexpr int kDigitBits = 11, kNumBins = 1 << kDigitBits;

// A place in the order of tokens. Tokens at or before it are kept. Ids have at most 31 bits. A value.
struct Cut {
  std::uint32_t code, id;
  __device__ bool keeps(std::uint32_t c, std::uint32_t i) const { return c < code || (c == code && i <= id); }
};
constexpr std::uint32_t kLastCode = 0xffffffffu, kLastId = 0x7fffffffu;

constexpr int kMaxListed = kNumBins / 2;  // the most tokens of a bin that find_cut compares with each other

struct WeighedToken {
  unsigned long long place;  // code and id; ascends in the order of tokens
  unsigned long long weight;
};

struct SelectScratch {
  union {
    unsigned long long bins[kNumBins];
    WeighedToken list[kMaxListed];
  };
  unsigned long long warp_sums[32];
  unsigned long long before;
  std::uint32_t digit;
  int num_listed;
  Cut cut;
};

// Sums of weights: over the bins up to this thread's last one, over this thread's bins, and over all bins.
struct BinSums {
  unsigned long long up_to, own, all;
};

template <int kThreads>
__device__ __forceinline__ BinSums sum_bins(SelectScratch& s) {
  constexpr int kEach = kNumBins / kThreads;
  static_assert(kEach >= 1 && kNumBins % kThreads == 0);
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32, warp = tid / 32;
  unsigned long long own = 0;
  for (int i = 0; i < kEach; ++i) own += s.bins[tid * kEach + i];
  unsigned long long sum = own;  // inclusive prefix sum within this warp
  for (int half = 1; half < 32; half *= 2) {
    const unsigned long long other = __shfl_up_sync(0xffffffffu, sum, half);
    if (lane >= half) sum += other;
  }
  if (lane == 31) s.warp_sums[warp] = sum;
  __syncthreads();
  unsigned long long all = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w == warp) sum += all;
    all += s.warp_sums[w];
  }
  return {sum, own, all};
}

// Finds the bin in which the running sum of `bins` first reaches `need`, and the sum before it. All threads get both.
template <int kThreads>
__device__ inline void find_bin(SelectScratch& s, const BinSums& sums, unsigned long long need, std::uint32_t* digit,
                                unsigned long long* before) {
  constexpr int kEach = kNumBins / kThreads;
  const int tid = static_cast<int>(threadIdx.x);
  unsigned long long at = sums.up_to - sums.own;
  if (at < need && need <= sums.up_to) {
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

// Shared memory has 32-bit additions; a 64-bit addition is a loop of compare-and-swap.
template <bool kUnitWeights>
__device__ __forceinline__ void add_to_bin(SelectScratch& s, std::uint32_t bin, unsigned long long weight) {
  auto* const words = reinterpret_cast<std::uint32_t*>(&s.bins[bin]);
  if constexpr (kUnitWeights) {
    atomicAdd(&words[0], 1u);
    return;
  }
  const auto low = static_cast<std::uint32_t>(weight);
  const bool carries = low != 0 && atomicAdd(&words[0], low) > 0xffffffffu - low;
  const std::uint32_t high = static_cast<std::uint32_t>(weight >> 32) + (carries ? 1 : 0);
  if (high != 0) atomicAdd(&words[1], high);
}

// Returns the end of the shortest prefix that weighs at least `need`. `items(f)` calls f(code, id, weigh) for this
// thread's tokens; weigh() is the token's weight. Together the threads visit each token once, in the same way in every
// call. REQUIRES: 1 <= need <= the sum of all weights; tokens with one code weigh the same; with kUnitWeights each
// weighs 1.
template <int kThreads, bool kUnitWeights, class Items>
__device__ Cut select_cut(SelectScratch& s, unsigned long long need, Items items) {
  constexpr int kShifts[] = {21, 10, 0};  // digits of 11, 11 and 10 bits of a 32-bit word
  std::uint32_t word[2] = {0, 0};         // of the cut: code, id
  for (int part = 0; part < 2; ++part) {
    for (int step = 0; step < 3; ++step) {
      const int shift = kShifts[step];
      const std::uint32_t digit_mask = step == 2 ? 0x3ffu : 0x7ffu;
      const std::uint32_t above = step == 0 ? 0u : ~0u << kShifts[step - 1];
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kNumBins; i += kThreads) s.bins[i] = 0;
      __syncthreads();
      items([&](std::uint32_t code, std::uint32_t id, auto weigh) {
        if (part == 1 && code != word[0]) return;
        const std::uint32_t value = part == 0 ? code : id;
        if ((value & above) != (word[part] & above)) return;
        add_to_bin<kUnitWeights>(s, value >> shift & digit_mask, weigh());
      });
      __syncthreads();
      std::uint32_t digit;
      unsigned long long before;
      find_bin<kThreads>(s, sum_bins<kThreads>(s), need, &digit, &before);
      need -= before;
      word[part] |= digit << shift;
      // The prefix ends with the last token that has these digits, so no further digit is needed. Exception: tokens of
      // weight 0 may have these digits and lie past the end of the shortest prefix. That can only happen before all
      // digits of the code are known (part 0, step < 2), and never with unit weights.
      if (s.bins[digit] == need && (kUnitWeights || part == 1 || step == 2)) {
        const std::uint32_t rest = ~(~0u << shift);
        return part == 0 ? Cut{word[0] | rest, kLastId} : Cut{word[0], (word[1] | rest) & kLastId};
      }
    }
  }
  return {word[0], word[1]};
}

// Returns the bin of a token. Bins are 1/64 wide, from the largest logit down; the last one has everything further
// below. The distance is rounded, but monotonic: a token's bin never precedes that of a token with a larger logit.
__device__ __forceinline__ std::uint32_t bin_below(float largest, std::uint32_t code) {
  const float distance = __fadd_rn(largest, -logit_of_code(code));
  return static_cast<std::uint32_t>(max(min(__float2int_rd(__fmul_rn(distance, 64.0f)), kNumBins - 1), 0));
}

// Finds the same cut as select_cut. `largest` is the largest logit of the items. need_of(sum of all weights) is the
// weight of the prefix; 0 keeps everything.
template <int kThreads, bool kUnitWeights, class NeedOf, class Items>
__device__ Cut find_cut(SelectScratch& s, float largest, NeedOf need_of, Items items) {
  const int tid = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int i = tid; i < kNumBins; i += kThreads) s.bins[i] = 0;
  if (tid == 0) s.num_listed = 0;
  __syncthreads();
  items([&](std::uint32_t code, std::uint32_t, auto weigh) {
    add_to_bin<kUnitWeights>(s, bin_below(largest, code), weigh());
  });
  __syncthreads();
  const BinSums sums = sum_bins<kThreads>(s);
  const unsigned long long need = need_of(sums.all);
  if (need == 0) return {kLastCode, kLastId};
  std::uint32_t bin;
  unsigned long long before;
  find_bin<kThreads>(s, sums, need, &bin, &before);
  // The list overwrites the bins, which are no longer needed.
  items([&](std::uint32_t code, std::uint32_t id, auto weigh) {
    if (bin_below(largest, code) != bin) return;
    const int at = atomicAdd(&s.num_listed, 1);
    if (at < kMaxListed) s.list[at] = {static_cast<unsigned long long>(code) << 32 | id, weigh()};
  });
  __syncthreads();
  const int count = s.num_listed;
  if (count > kMaxListed) return select_cut<kThreads, kUnitWeights>(s, need, items);
  for (int i = tid; i < count; i += kThreads) {
    const WeighedToken token = s.list[i];
    unsigned long long sum = before;
    for (int j = 0; j < count; ++j) sum += s.list[j].place <= token.place ? s.list[j].weight : 0;
    if (sum >= need && sum - token.weight < need) {
      s.cut = {static_cast<std::uint32_t>(token.place >> 32), static_cast<std::uint32_t>(token.place)};
    }
  }
  __syncthreads();
  return s.cut;
}

}  // namespace mortise::cuda
