// span_tile_softmax.hpp: softmax of a part on tiles, block by block of 32 keys, so that the vector unit has work
// between the products of the blocks before and after: while block n + 1 is multiplied, the scores of n are scaled, and
// while block n is exponentiated, the probabilities of n - 1 are multiplied. A block of scores is [32 rows][32 keys] of
// f32, of probabilities the same of bf16: lines that follow each other. The probabilities take the place of the scores:
// block n of them lies where block n / 2 of the scores was.
#pragma once

#include "kernels/cpu/span_part.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kBlockNumbers = index(kSpanRows) * kTileDepth;

MORTISE_INLINE float* scores_of(SpanScratch& scratch, std::size_t block) {
  return scratch.scores + block * kBlockNumbers;
}
MORTISE_INLINE Bf16* probabilities_of(SpanScratch& scratch, std::size_t block) {
  return reinterpret_cast<Bf16*>(scratch.scores) + block * kBlockNumbers;
}

// All rows see all keys of the block. Positions ascend: the last row's first key and the first row's last key decide.
MORTISE_INLINE bool whole_block(const PartSpan& p, std::size_t block) {
  const SpanUnit& unit = p.part.unit;
  const std::int32_t begin = static_cast<std::int32_t>(block * kTileDepth);
  return visible_keys(unit, unit.num_rows - 1, p.span).begin <= begin &&
         visible_keys(unit, 0, p.span).end >= begin + static_cast<std::int32_t>(kTileDepth);
}

// Which of the sixteen keys from `key` row m sees.
MORTISE_INLINE Mask16 seen_lanes(const PartSpan& p, std::size_t m, std::size_t key) {
  const KeyRange seen = visible_keys(p.part.unit, static_cast<std::int32_t>(m) / p.part.unit.num_heads, p.span);
  const std::int32_t at = static_cast<std::int32_t>(key), lanes = static_cast<std::int32_t>(kLanes);
  const std::int32_t begin = minimum(maximum(seen.begin - at, 0), lanes);
  const std::int32_t end = minimum(maximum(seen.end - at, 0), lanes);
  return first_lanes(index(end)) & !first_lanes(index(begin));
}

void begin_softmax(const PartSpan& p, SpanScratch& scratch) {
  for (std::size_t m = 0; m < p.part.rows(); ++m) {
    store(scratch.maxima + m * kLanes, broadcast(-kInfinity));
    store(scratch.sums + m * kLanes, zero());
  }
}

// Scores of a block times the scale, and their maxima. What a row does not see becomes -infinity.
template <class E, bool whole>
MORTISE_INLINE void scale_rows(const PartSpan& p, std::size_t block, SpanScratch& scratch) {
  const F32x16 c = broadcast(p.part.unit.scale);
  const std::size_t key = block * kTileDepth;
  float* s = scores_of(scratch, block);
  for (std::size_t m = 0; m < p.part.rows(); ++m, s += kTileDepth) {
    F32x16 largest = load(scratch.maxima + m * kLanes);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kTileDepth; i += kLanes) {
      F32x16 t = load(s + i);
      if constexpr (kHasScales<E>) t = t * load(scratch.key_scales + key + i);
      t = t * c;
      if constexpr (!whole) t = select(seen_lanes(p, m, key + i), t, broadcast(-kInfinity));
      largest = max(largest, t);
      store(s + i, t);
    }
    store(scratch.maxima + m * kLanes, largest);
  }
}
template <class E>
MORTISE_INLINE void scale_block(const PartSpan& p, std::size_t block, SpanScratch& scratch) {
  whole_block(p, block) ? scale_rows<E, true>(p, block, scratch) : scale_rows<E, false>(p, block, scratch);
}

void reduce_maxima(const PartSpan& p, const SpanScratch& scratch) {
  for (std::size_t m = 0; m < p.part.rows(); ++m) p.partial.max[m] = max(load(scratch.maxima + m * kLanes));
}
void reduce_sums(const PartSpan& p, const SpanScratch& scratch) {
  for (std::size_t m = 0; m < p.part.rows(); ++m) p.partial.sum[m] = sum(load(scratch.sums + m * kLanes));
}

// Rounds to memory, and gives what is there.
MORTISE_INLINE F32x16 put_probabilities(Bf16* to, F32x16 p) {
#if defined(__AVX512BF16__)  // which NaN it is does not matter to a product
  const __m256i h = (__m256i)_mm512_cvtneps_pbh(p.v);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), h);
  return widen_bf16(h);
#else
  store_bf16(to, p);
  return round_bf16(p);
#endif
}

// Rows [first, end) of a block: scores become probabilities, 0 for what a row does not see, and join the sums. With
// scales: times V's scale, but for those that are 0: the scale of a slot that nobody has written may be anything.
template <class E, bool whole>
MORTISE_INLINE void exponentiate_rows(const PartSpan& p, std::size_t block, std::size_t first, std::size_t end,
                                      SpanScratch& scratch) {
  const std::size_t key = block * kTileDepth;
  for (std::size_t m = first; m < end; ++m) {
    const float* t = scores_of(scratch, block) + m * kTileDepth;
    Bf16* to = probabilities_of(scratch, block) + m * kTileDepth;
    const F32x16 largest = broadcast(p.partial.max[m]);
    F32x16 e[2], total = load(scratch.sums + m * kLanes);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      e[i] = exp2_not_positive(load(t + i * kLanes) - largest);
      if constexpr (!whole) e[i] = select(seen_lanes(p, m, key + i * kLanes), e[i], zero());
    }
    // Both scores have been read: block 0 has its probabilities where they were.
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      if constexpr (kHasScales<E>) {
        total = total + e[i];
        const F32x16 scaled = e[i] * load(scratch.value_scales + key + i * kLanes);
        put_probabilities(to + i * kLanes, select(eq(e[i], zero()), zero(), scaled));
      } else {
        total = total + put_probabilities(to + i * kLanes, e[i]);
      }
    }
    store(scratch.sums + m * kLanes, total);
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
