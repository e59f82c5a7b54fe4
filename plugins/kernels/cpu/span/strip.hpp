// plugins/kernels/cpu/span/strip.hpp: divides a unit into strips that are computed at once: the keys that their rows
// see, and where their results are stored.
#pragma once

#include "kernels/cpu/span/span.hpp"
#include "kernels/cpu/vec/io.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileDepth = 32;  // elements of a depth tile: along the sum of either product

constexpr std::int32_t minimum(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}
constexpr std::int32_t maximum(std::int32_t a, std::int32_t b) {
  return a > b ? a : b;
}
constexpr std::size_t index(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

// Keys relative to the start of the span; empty if end <= begin.
struct KeyRange {
  std::int32_t begin, end;
};

// The keys that a row at `position` sees.
KeyRange keys_seen_from(std::int32_t position, const SpanUnit& unit, std::int32_t span) {
  const std::int32_t start = span * kSpan, first = unit.window > 0 ? position - unit.window + 1 : 0;
  return {maximum(first - start, 0), minimum(position + 1 - start, kSpan)};
}
KeyRange visible_keys(const SpanUnit& unit, std::int32_t row, std::int32_t span) {
  return keys_seen_from(unit.positions == nullptr ? unit.position + row : unit.positions[row], unit, span);
}
std::int32_t last_position(const SpanUnit& unit) {
  return unit.positions == nullptr ? unit.position + unit.num_rows - 1 : unit.last_position;
}

// The keys that at least one row sees: from the first key of the first position to the last key of the last position.
KeyRange keys_of_unit(const SpanUnit& unit, std::int32_t span) {
  return {keys_seen_from(unit.position, unit, span).begin, keys_seen_from(last_position(unit), unit, span).end};
}

// Returns where row `row` of the unit is in q and out, counted in rows.
std::ptrdiff_t place_of(const SpanUnit& unit, std::int32_t row) {
  return unit.rows == nullptr ? row : unit.rows[row];
}

// Maxima, sums and O of one span or of several merged spans.
struct Partial {
  float *max, *sum, *o;
};
Partial partial_at(float* memory) {
  return {memory, memory + kSpanRows, memory + 2 * kSpanRows};
}

// The rows of a unit that are computed at once, as a unit of their own, and their place in the whole unit. A value;
// borrows the unit's memory.
struct Strip {
  SpanUnit unit;
  std::size_t number, first;  // first: rows times heads before this strip

  std::size_t rows() const { return index(unit.num_rows * unit.num_heads); }
  // Returns this strip's section of the whole unit's partial.
  Partial partial(float* memory) const {
    return partial_at(memory + number * 2 * kSpanRows + first * index(unit.layout->value_width));
  }
  // Returns record n of the strip's first row and head.
  float* record(const SpanPartials& partials, std::int32_t n) const {
    return partials.records + n * partials.stride + first * record_floats(unit.layout->value_width);
  }
};

// Calls f(strip) for all strips of a unit.
template <class T, class F>
MORTISE_INLINE void over_strips(const SpanUnit& unit, const F& f) {
  const std::int32_t rows = kSpanRows / unit.num_heads;
  Strip strip = {unit, 0, 0};
  for (std::int32_t row = 0; row < unit.num_rows; row += rows, ++strip.number) {
    if (unit.rows == nullptr) {
      strip.unit.q = static_cast<const T*>(unit.q) + row * unit.q_row_stride;
      strip.unit.out = static_cast<T*>(unit.out) + row * unit.out_row_stride;
      strip.unit.position = unit.position + row;
    } else {  // the strip keeps the unit's smallest and largest position
      strip.unit.rows = unit.rows + row;
      strip.unit.positions = unit.positions + row;
    }
    strip.unit.num_rows = minimum(rows, unit.num_rows - row);
    strip.first = index(row * unit.num_heads);
    f(strip);
  }
}

// A strip together with the keys of a span that it sees. Keys count from the start of the span.
struct StripSpan {
  const Strip& strip;
  std::int32_t span;
  KeyRange keys;   // keys that at least one row sees
  KeyRange range;  // `keys` extended to whole depth tiles
  Partial partial;
};

template <class E>
constexpr bool kHasScales = sizeof(E) == sizeof(std::int8_t);

// exp2 for x <= 0, with the same bits as exp2. -infinity gives 0.
MORTISE_INLINE F32x16 exp2_not_positive(F32x16 x) {
  const I32x16 n = to_int(x);
  const F32x16 r = exp2_of_parts(n, x - to_float(n));
  return select(le(x, broadcast(-126.0f)), zero(), r);
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
