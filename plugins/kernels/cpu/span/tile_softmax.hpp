// plugins/kernels/cpu/span/tile_softmax.hpp: the softmax of a strip on AMX, in blocks of 32 keys, so that the vector
// unit and the AMX unit work at the same time: while the scores of block n + 1 are multiplied, the maxima of block n
// are taken; while block n is exponentiated, the probabilities of block n - 1 are multiplied. A block of scores is [32
// rows][32 keys] of f32, a block of probabilities the same of bf16, both contiguous. Probabilities replace scores:
// block n is stored where block n / 2 of the scores was.
#pragma once

#include "kernels/cpu/span/strip.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kBlockNumbers = index(kSpanRows) * kTileDepth;

constexpr std::size_t whole_vectors(std::size_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}
MORTISE_INLINE float* scores_of(SpanScratch& scratch, std::size_t block) {
  return scratch.scores + block * kBlockNumbers;
}
MORTISE_INLINE Bf16* probabilities_of(SpanScratch& scratch, std::size_t block) {
  return reinterpret_cast<Bf16*>(scratch.scores) + block * kBlockNumbers;
}

// The keys of a span that every row sees.
KeyRange keys_of_all(const SpanUnit& unit, std::int32_t span) {
  return {keys_seen_from(last_position(unit), unit, span).begin, keys_seen_from(unit.position, unit, span).end};
}

// Whether every row sees every key of the block.
MORTISE_INLINE bool whole_block(const StripSpan& p, std::size_t block) {
  const KeyRange all = keys_of_all(p.strip.unit, p.span);
  const std::int32_t begin = static_cast<std::int32_t>(block * kTileDepth);
  return all.begin <= begin && all.end >= begin + static_cast<std::int32_t>(kTileDepth);
}

// Which of the sixteen keys from `key` row m sees.
MORTISE_INLINE Mask16 seen_lanes(const StripSpan& p, std::size_t m, std::size_t key) {
  const KeyRange seen = visible_keys(p.strip.unit, static_cast<std::int32_t>(m) / p.strip.unit.num_heads, p.span);
  const std::int32_t at = static_cast<std::int32_t>(key), lanes = static_cast<std::int32_t>(kLanes);
  const std::int32_t begin = minimum(maximum(seen.begin - at, 0), lanes);
  const std::int32_t end = minimum(maximum(seen.end - at, 0), lanes);
  return first_lanes(index(end)) & !first_lanes(index(begin));
}

// Reduces the sixteen vectors at `rows`: lane i is sum() or max() of vector i.
#if defined(MORTISE_ISA_AVX512)
// Computes all sixteen trees at once: each step halves the vectors and combines two in one register. 46 instructions
// instead of about 130.
template <class F>
MORTISE_INLINE F32x16 trees(const float* rows, const F& f) {
  __m512 x8[8], x4[4], x2[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512 a = _mm512_loadu_ps(rows + i * 16), b = _mm512_loadu_ps(rows + (i + 8) * 16);
    x8[i] = f(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // rows i, i + 8, i + 4, i + 12, four lanes each
    x4[i] = f(_mm512_shuffle_f32x4(x8[i], x8[i + 4], 0x88), _mm512_shuffle_f32x4(x8[i], x8[i + 4], 0xdd));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {  // the same rows, and those + 2
    const __m512d a = _mm512_castps_pd(x4[i]), b = _mm512_castps_pd(x4[i + 2]);
    x2[i] = f(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  // Rows 0, 2, 1, 3; 8, ..; 4, ..; 12, ..
  const __m512 x1 = f(_mm512_shuffle_ps(x2[0], x2[1], 0x88), _mm512_shuffle_ps(x2[0], x2[1], 0xdd));
  return {_mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), x1)};
}
MORTISE_INLINE F32x16 sums(const float* rows) {
  return trees(rows, [](__m512 a, __m512 b) { return _mm512_add_ps(a, b); });
}
MORTISE_INLINE F32x16 maxima(const float* rows) {
  return trees(rows, [](__m512 a, __m512 b) { return _mm512_max_ps(a, b); });
}
#else
MORTISE_INLINE F32x16 sums(const float* rows) {
  float r[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) r[i] = sum(load(rows + i * kLanes));
  return load(r);
}
MORTISE_INLINE F32x16 maxima(const float* rows) {
  float r[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) r[i] = max(load(rows + i * kLanes));
  return load(r);
}
#endif

// Starts each row with the maximum -infinity and the sum 0. Rows that pad the strip to whole vectors see no keys, so
// they keep these values.
void begin_softmax(const StripSpan& p, SpanScratch& scratch) {
  for (std::size_t m = 0; m < whole_vectors(p.strip.rows()); ++m) {
    store(scratch.maxima + m * kLanes, broadcast(-kInfinity));
    store(scratch.sums + m * kLanes, zero());
  }
}
void reduce_maxima(const StripSpan& p, const SpanScratch& scratch) {
  const F32x16 c = broadcast(p.strip.unit.scale);
  for (std::size_t m = 0; m < p.strip.rows(); m += kLanes) {
    store(p.partial.max + m, maxima(scratch.maxima + m * kLanes) * c);
  }
}
void reduce_sums(const StripSpan& p, const SpanScratch& scratch) {
  for (std::size_t m = 0; m < p.strip.rows(); m += kLanes) store(p.partial.sum + m, sums(scratch.sums + m * kLanes));
}

// Takes the maxima of unscaled scores. For scale > 0 the scaled maximum is the maximum of the scaled scores, because
// rounding is monotonic.
template <class E, bool whole>
MORTISE_INLINE void join_maxima(const StripSpan& p, std::size_t block, SpanScratch& scratch) {
  const std::size_t key = block * kTileDepth;
  const float* s = scores_of(scratch, block);
  for (std::size_t m = 0; m < p.strip.rows(); ++m, s += kTileDepth) {
    F32x16 largest = load(scratch.maxima + m * kLanes);
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kTileDepth; i += kLanes) {
      F32x16 t = load(s + i);
      if constexpr (kHasScales<E>) t = t * load(scratch.key_scales + key + i);
      if constexpr (!whole) t = select(seen_lanes(p, m, key + i), t, broadcast(-kInfinity));
      largest = max(largest, t);
    }
    store(scratch.maxima + m * kLanes, largest);
  }
}
template <class E>
MORTISE_INLINE void join_maxima(const StripSpan& p, std::size_t block, SpanScratch& scratch) {
  whole_block(p, block) ? join_maxima<E, true>(p, block, scratch) : join_maxima<E, false>(p, block, scratch);
}

// Rounds 32 numbers to bf16, stores them (one cache line) and returns the rounded values.
MORTISE_INLINE void put_probabilities(Bf16* to, F32x16 (&p)[2]) {
#if defined(__AVX512BF16__)  // may give another NaN, which does not matter in a product
  const __m512i h = (__m512i)_mm512_cvtne2ps_pbh(p[1].v, p[0].v);
  _mm512_storeu_si512(to, h);
  p[0] = widen_bf16(_mm512_castsi512_si256(h));
  p[1] = widen_bf16(_mm512_extracti64x4_epi64(h, 1));
#else
  for (std::size_t i = 0; i < 2; ++i) {
    store_bf16(to + i * kLanes, p[i]);
    p[i] = round_bf16(p[i]);
  }
#endif
}

// Turns the scores of n rows of a block, from row m on, into probabilities (0 for keys that the row does not see) and
// adds them to the sums. With an int8 cache they are multiplied by V's scale, except where they are 0: the scale of a
// slot that was never written can be anything.
template <class E, bool whole, std::size_t n>
MORTISE_INLINE void exponentiate(const StripSpan& p, std::size_t block, std::size_t m, SpanScratch& scratch) {
  const std::size_t key = block * kTileDepth;
  const F32x16 c = broadcast(p.strip.unit.scale);
  const float* s = scores_of(scratch, block) + m * kTileDepth;
  F32x16 e[n][2];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 2 * n; ++i) {
    const std::size_t row = i / 2, lane = i % 2 * kLanes;
    F32x16 t = load(s + row * kTileDepth + lane);
    if constexpr (kHasScales<E>) t = t * load(scratch.key_scales + key + lane);
    e[row][i % 2] = exp2_not_positive(t * c - broadcast(p.partial.max[m + row]));
    if constexpr (!whole) e[row][i % 2] = select(seen_lanes(p, m + row, key + lane), e[row][i % 2], zero());
  }
  // All scores of these rows have been read, so the probabilities of block 0 may replace them.
#pragma GCC unroll 2
  for (std::size_t row = 0; row < n; ++row) {
    float* const sums = scratch.sums + (m + row) * kLanes;
    F32x16 total = load(sums);
    if constexpr (kHasScales<E>) {
      total = total + e[row][0] + e[row][1];
#pragma GCC unroll 2
      for (std::size_t i = 0; i < 2; ++i) {
        const F32x16 scaled = e[row][i] * load(scratch.value_scales + key + i * kLanes);
        e[row][i] = select(eq(e[row][i], zero()), zero(), scaled);
      }
    }
    put_probabilities(probabilities_of(scratch, block) + (m + row) * kTileDepth, e[row]);
    if constexpr (!kHasScales<E>) total = total + e[row][0] + e[row][1];
    store(sums, total);
  }
}

// Computes rows [first, end), two at a time, so that their dependency chains overlap.
template <class E, bool whole>
MORTISE_INLINE void exponentiate_rows(const StripSpan& p, std::size_t block, std::size_t first, std::size_t end,
                                      SpanScratch& scratch) {
  std::size_t m = first;
  for (; m + 2 <= end; m += 2) exponentiate<E, whole, 2>(p, block, m, scratch);
  if (m < end) exponentiate<E, whole, 1>(p, block, m, scratch);
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
