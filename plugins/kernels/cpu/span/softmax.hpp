// plugins/kernels/cpu/span/softmax.hpp: the softmax of a strip on vectors, row by row, for span/dot.hpp.
#pragma once

#include "kernels/cpu/span/strip.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kSpanStride = kSpan;  // floats from one row of scores to the next

// Rounds probabilities to the model's type, stores them over the scores, and returns them.
template <class T>
MORTISE_INLINE F32x16 put(float* to, F32x16 p) {
  const F32x16 rounded_p = rounded<T>(p);
  store(to, rounded_p);
  return rounded_p;
}

// Turns the scores of row m into probabilities for the keys in `visible`, and into 0 for the rest of `range` (whole
// tiles). With an int8 cache nonzero probabilities are multiplied by V's scale; zeros are not, because the scale of a
// slot that was never written may have any value.
template <class T, class E>
MORTISE_INLINE void softmax_row(SpanScratch& scratch, std::size_t m, float scale, KeyRange visible, KeyRange range,
                                Partial partial) {
  float* scores = scratch.scores + m * kSpanStride;
  const std::size_t first = index(visible.begin) / kLanes * kLanes, end = index(visible.end);
  const std::size_t last = (end - 1) / kLanes * kLanes;
  const F32x16 c = broadcast(scale), nothing = broadcast(-kInfinity);
  constexpr bool scaled = kHasScales<E>;
  if constexpr (scaled) {
    for (std::size_t i = first; i < end; i += kLanes)
      store(scores + i, load(scores + i) * load(scratch.key_scales + i));
  }
  // Masked lanes become -infinity first: they never are the maximum, and their exp2 is 0.
  store(scores + first, select(first_lanes(index(visible.begin) - first), nothing, load(scores + first)));
  store(scores + last, select(first_lanes(end - last), load(scores + last), nothing));

  F32x16 largest = nothing;
  for (std::size_t i = first; i < end; i += kLanes) {
    const F32x16 t = load(scores + i) * c;
    largest = max(largest, t);
    store(scores + i, t);
  }
  const float row_max = max(largest);
  const F32x16 m_all = broadcast(row_max);
  F32x16 total = zero();
  for (std::size_t i = index(range.begin); i < first; i += kLanes) put<T>(scores + i, zero());
  for (std::size_t i = first; i < end; i += kLanes) {
    const F32x16 e = exp2_not_positive(load(scores + i) - m_all);
    if constexpr (scaled) {
      total = total + e;
      put<T>(scores + i, select(eq(e, zero()), zero(), e * load(scratch.value_scales + i)));
    } else {
      total = total + put<T>(scores + i, e);
    }
  }
  for (std::size_t i = last + kLanes; i < index(range.end); i += kLanes) put<T>(scores + i, zero());
  partial.max[m] = row_max;
  partial.sum[m] = sum(total);
}

template <class T>
void clear_row(SpanScratch& scratch, std::size_t m, KeyRange range, Partial partial) {
  float* scores = scratch.scores + m * kSpanStride;
  for (std::size_t i = index(range.begin); i < index(range.end); i += kLanes) put<T>(scores + i, zero());
  partial.max[m] = -kInfinity;
  partial.sum[m] = 0.0f;
}

template <class T, class E>
void softmax_rows(const StripSpan& p, SpanScratch& scratch) {
  const SpanUnit& unit = p.strip.unit;
  std::size_t m = 0;
  for (std::int32_t r = 0; r < unit.num_rows; ++r) {
    const KeyRange visible = visible_keys(unit, r, p.span);
    for (std::int32_t h = 0; h < unit.num_heads; ++h, ++m) {
      if (visible.begin < visible.end) {
        softmax_row<T, E>(scratch, m, unit.scale, visible, p.range, p.partial);
      } else {
        clear_row<T>(scratch, m, p.range, p.partial);
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
