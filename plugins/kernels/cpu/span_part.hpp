// span_part.hpp: the parts of a unit that are computed at once: which keys a row sees, and where its results lie.
#pragma once

#include "kernels/cpu/io.hpp"
#include "kernels/cpu/math.hpp"
#include "kernels/cpu/span.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileDepth = 32;  // of both products

constexpr std::int32_t minimum(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}
constexpr std::int32_t maximum(std::int32_t a, std::int32_t b) {
  return a > b ? a : b;
}
constexpr std::size_t index(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

// Keys relative to a span's start; empty when end <= begin.
struct KeyRange {
  std::int32_t begin, end;
};

KeyRange visible_keys(const SpanUnit& unit, std::int32_t row, std::int32_t span) {
  const std::int32_t position = unit.position + row, start = span * kSpan;
  const std::int32_t first = unit.window > 0 ? position - unit.window + 1 : 0;
  return {maximum(first - start, 0), minimum(position + 1 - start, kSpan)};
}

// The keys that any row sees: positions ascend, so from the first row's first to the last row's last.
KeyRange keys_of_unit(const SpanUnit& unit, std::int32_t span) {
  return {visible_keys(unit, 0, span).begin, visible_keys(unit, unit.num_rows - 1, span).end};
}

// Maxima, sums and O of a span, or of the spans so far.
struct Partial {
  float *max, *sum, *o;
};
Partial partial_at(float* memory) {
  return {memory, memory + kSpanRows, memory + 2 * kSpanRows};
}

// The rows of a unit that are computed at once: a unit of their own, and where they are in the whole one.
struct Part {
  SpanUnit unit;
  std::size_t number, first;  // first: rows times heads before

  std::size_t rows() const { return index(unit.num_rows * unit.num_heads); }
  // Of the whole unit's.
  Partial partial(float* memory) const {
    return partial_at(memory + number * 2 * kSpanRows + first * index(unit.layout->value_width));
  }
};

// Calls f(part) for all parts of a unit.
template <class T, class F>
MORTISE_INLINE void over_parts(const SpanUnit& unit, const F& f) {
  const std::int32_t rows = kSpanRows / unit.num_heads;
  Part part = {unit, 0, 0};
  for (std::int32_t row = 0; row < unit.num_rows; row += rows, ++part.number) {
    part.unit.q = static_cast<const T*>(unit.q) + row * unit.q_row_stride;
    part.unit.out = static_cast<T*>(unit.out) + row * unit.out_row_stride;
    part.unit.position = unit.position + row;
    part.unit.num_rows = minimum(rows, unit.num_rows - row);
    part.first = index(row * unit.num_heads);
    f(part);
  }
}

// A part, and what it sees of a span. Keys count from the span's start.
struct PartSpan {
  const Part& part;
  std::int32_t span;
  KeyRange keys;   // that any row sees
  KeyRange range;  // the same in whole tiles of 32
  Partial partial;
};

template <class E>
constexpr bool kHasScales = sizeof(E) == sizeof(std::int8_t);

// 2^x for x <= 0 and the same bits as exp2 there; 0 for -infinity.
MORTISE_INLINE F32x16 exp2_not_positive(F32x16 x) {
  const I32x16 n = to_int(x);
  const F32x16 r = exp2_of_parts(n, x - to_float(n));
  return select(le(x, broadcast(-126.0f)), zero(), r);
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
