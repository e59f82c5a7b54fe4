// plugins/kernels/cpu/head/sample_filter.hpp: the tokens of a row that top_k and top_p keep, found without a sort.
// It collects the candidates above a bound and partitions them to find the last token kept. Weights are integers, so
// their sum does not depend on the order of addition, and the result equals that of a full sort. Included by
// sample_token.cpp alone.
#pragma once

#include "kernels/cpu/head/clean_logit.hpp"
#include "kernels/cpu/head/sample_token.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// For d up to this bound, exp(d) * 2^32 rounds to 0.
constexpr float kWeightlessBelow = -23.0f;

// --- keys: ascending in the order (logit descending, id ascending) ---

MORTISE_INLINE std::uint64_t candidate_key(float logit, std::int32_t id) {
  std::uint32_t u;
  std::memcpy(&u, &logit, sizeof u);
  const std::uint32_t descending = (u >> 31) != 0 ? u : 0x7fffffffu - u;
  return static_cast<std::uint64_t>(descending) << 32 | static_cast<std::uint32_t>(id);
}
MORTISE_INLINE float candidate_logit(std::uint64_t key) {
  const std::uint32_t descending = static_cast<std::uint32_t>(key >> 32);
  const std::uint32_t u = (descending >> 31) != 0 ? descending : 0x7fffffffu - descending;
  float logit;
  std::memcpy(&logit, &u, sizeof logit);
  return logit;
}
MORTISE_INLINE std::int32_t candidate_id(std::uint64_t key) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(key));
}

// --- weights: round(e * 2^32), ties to even, for e in [0, 1] ---

struct WeightLanes {
  I32x16 high, low;  // high * 2^16 + low
};

MORTISE_INLINE WeightLanes weight_lanes(F32x16 e) {
  const F32x16 y = e * broadcast(0x1p32f);
  const Mask16 large = ge(y, broadcast(0x1p31f));  // a multiple of 2^8, too large for to_int
  const I32x16 i = to_int(select(large, y * broadcast(0x1p-8f), y));
  return {select(large, shift_right<8>(i), shift_right<16>(i)),
          select(large, shift_left<8>(i & broadcast_i32(0xff)), i & broadcast_i32(0xffff))};
}

MORTISE_INLINE void store_weights(WeightLanes w, std::uint64_t (&out)[kLanes]) {
  std::int32_t high[kLanes], low[kLanes];
  store(high, w.high);
  store(low, w.low);
  for (std::size_t i = 0; i < kLanes; ++i) {
    out[i] =
        (static_cast<std::uint64_t>(static_cast<std::uint32_t>(high[i])) << 16) + static_cast<std::uint32_t>(low[i]);
  }
}

MORTISE_INLINE std::uint64_t sum_weights(WeightLanes w) {
  std::uint64_t lane[kLanes], total = 0;
  store_weights(w, lane);
  for (std::size_t i = 0; i < kLanes; ++i) total += lane[i];
  return total;
}

MORTISE_INLINE std::uint64_t weight_of(float e) {
  std::uint64_t lane[kLanes];
  store_weights(weight_lanes(broadcast(e)), lane);
  return lane[0];
}

// Sum of the weights of the logits >= `bound`.
inline std::uint64_t total_weight(const float* row, std::size_t n, float row_max, float bound) {
  constexpr std::size_t kBlocksPerSum = 1 << 14;  // 2^14 * 2^16 fits a lane
  const F32x16 m = broadcast(row_max), least = broadcast(bound);
  std::uint64_t total = 0;
  for (std::size_t begin = 0; begin < n; begin += kBlocksPerSum * kLanes) {
    const std::size_t end = n - begin < kBlocksPerSum * kLanes ? n : begin + kBlocksPerSum * kLanes;
    WeightLanes s = {broadcast_i32(0), broadcast_i32(0)};
    for (std::size_t i = begin; i < end; i += kLanes) {
      const F32x16 x = load_clean(row + i, end - i);
      const F32x16 d = x - m;
      const Mask16 counts = ge(x, least) & ge(d, broadcast(kWeightlessBelow));
      if (!any(counts)) continue;
      const WeightLanes w = weight_lanes(select(counts, exp(d), zero()));
      s = {s.high + w.high, s.low + w.low};
    }
    total += sum_weights(s);
  }
  return total;
}

// --- the cut ---

// Finds the shortest prefix, in key order, whose weights sum to at least `need`. Moves it to the front and returns its
// length. Its last element is the last in key order. REQUIRES: 1 <= need <= the sum of all weights; keys differ.
inline std::size_t select_prefix(SampleCandidate* c, std::size_t n, std::uint64_t need) {
  std::size_t begin = 0, end = n;  // elements before begin are in the prefix, elements from end on are not
  std::uint64_t random = 1;        // chooses pivots; changes only the time
  while (end - begin > 1) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const std::size_t at = begin + static_cast<std::size_t>((random >> 33) % (end - begin));
    const SampleCandidate pivot = c[at];
    c[at] = c[end - 1];
    c[end - 1] = pivot;
    std::size_t middle = begin;
    std::uint64_t sum = 0;
    for (std::size_t i = begin; i + 1 < end; ++i) {  // no branches: half of them would be mispredicted
      const SampleCandidate x = c[i];
      const bool before = x.key < pivot.key;
      c[i] = c[middle];
      c[middle] = x;
      middle += before;
      sum += before ? x.weight : 0;
    }
    c[end - 1] = c[middle];
    c[middle] = pivot;
    if (sum >= need) {
      end = middle;
    } else if (sum + pivot.weight >= need) {
      return middle + 1;
    } else {
      need -= sum + pivot.weight;
      begin = middle + 1;
    }
  }
  return begin + 1;
}

// Appends the lanes of x in `mask`; lane 0 is token i.
MORTISE_INLINE std::size_t append(SampleCandidate* c, std::size_t n, std::size_t i, std::uint32_t mask, F32x16 x,
                                  const std::uint64_t (&weights)[kLanes]) {
  float lane[kLanes];
  store(lane, x);
  for (; mask != 0; mask &= mask - 1) {
    const int j = __builtin_ctz(mask);
    c[n++] = {candidate_key(lane[j], static_cast<std::int32_t>(i) + j), weights[j]};
  }
  return n;
}

// Collects the first k of the logits >= bound, unordered. Returns their number.
inline std::size_t take_top_k(const float* row, std::size_t n, float bound, std::size_t k, SampleCandidate* c) {
  constexpr std::uint64_t kOnes[kLanes] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::size_t capacity = n / 2 > k + 256 ? 2 * k + 512 : n + kLanes;
  const F32x16 least = broadcast(bound);
  float below = kNoLogit;  // k candidates come before a token with this logit
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16 x = load_clean(row + i, n - i);
    const std::uint32_t mask = mask_bits(ge(x, least) & gt(x, broadcast(below)));
    if (mask == 0) continue;
    count = append(c, count, i, mask, x, kOnes);
    if (count + kLanes <= capacity) continue;
    count = select_prefix(c, count, k);
    below = candidate_logit(c[count - 1].key);
  }
  return count > k ? select_prefix(c, count, k) : count;
}

// ceil(top_p * total), at least 1. top_p counts as a multiple of 2^-32.
MORTISE_INLINE std::uint64_t needed_weight(float top_p, std::uint64_t total) {
  const std::uint64_t p = any(gt(broadcast(top_p), zero())) ? weight_of(top_p) : 0;
  const std::uint64_t low = p * (total & 0xffffffffu);
  const std::uint64_t need = p * (total >> 32) + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
  return need == 0 ? 1 : need;
}

// Sets the weights of n candidates and returns their sum.
inline std::uint64_t weigh(SampleCandidate* c, std::size_t n, float row_max) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t count = lanes_left(n - i);
    float x[kLanes] = {};
    for (std::size_t j = 0; j < count; ++j) x[j] = candidate_logit(c[i + j].key);
    std::uint64_t w[kLanes];
    store_weights(weight_lanes(exp(load(x) - broadcast(row_max))), w);
    for (std::size_t j = 0; j < count; ++j) total += c[i + j].weight = w[j];
  }
  return total;
}

// Collects the shortest prefix of the logits >= bound that has top_p of their weight, unordered. Returns its length.
inline std::size_t take_top_p(const float* row, std::size_t n, float row_max, float bound, float top_p,
                              SampleCandidate* c) {
  const std::uint64_t total = total_weight(row, n, row_max, bound);
  const std::uint64_t need = needed_weight(top_p, total);
  // Tokens of weight <= `light` weigh at most total - need together. So the other tokens suffice, and they come first
  // in the order.
  const std::uint64_t light = (total - need) / n;
  float least_d = kWeightlessBelow;
  if (light > 0) {
    const F32x16 e = broadcast(static_cast<float>(light)) * broadcast(0x1p-32f);
    least_d = first_lane(log(e) - broadcast(0.001f));  // exp and log are off by far less than 0.001
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32x16 x = load_clean(row + i, n - i);
    const F32x16 d = x - broadcast(row_max);
    const std::uint32_t mask = mask_bits(ge(x, broadcast(bound)) & ge(d, broadcast(least_d)));
    if (mask == 0) continue;
    std::uint64_t weights[kLanes];
    store_weights(weight_lanes(exp(d)), weights);
    count = append(c, count, i, mask, x, weights);
  }
  return select_prefix(c, count, need);
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
