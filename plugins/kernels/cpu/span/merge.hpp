// plugins/kernels/cpu/span/merge.hpp: merges the partials of spans and computes the result from the last one.
#pragma once

#include "kernels/cpu/span/strip.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

void clear(Partial partial) {
  for (std::size_t m = 0; m < kSpanRows; m += kLanes) {
    store(partial.max + m, broadcast(-kInfinity));
    store(partial.sum + m, zero());
  }
}

// A partial to be merged: maxima, sums, and O of row m at o + m * o_stride. A value; borrows the arrays.
struct PartialRows {
  const float *max, *sum, *o;
  std::size_t o_stride;

  PartialRows(Partial partial, std::size_t width) : max(partial.max), sum(partial.sum), o(partial.o), o_stride(width) {}
  PartialRows(const float* maxima, const float* sums, const float* records, std::size_t stride)
      : max(maxima), sum(sums), o(records), o_stride(stride) {}
};

// M = max(m1, m2), w = exp2(m - M), sum = sum1 w1 + sum2 w2, O = O1 w1 + O2 w2: product, product, sum, no fma. A row
// without a partial so far takes the span's partial unchanged. A row that sees no key of the span keeps its own. O2 + 0
// belongs to the partial: it makes zeros positive, whose sign would depend on the number of depth tiles with P = 0.
void merge_partial(const PartialRows& from, Partial into, std::size_t num_rows, std::size_t width) {
  alignas(64) float w1[kSpanRows], w2[kSpanRows];
  std::uint32_t had = 0, sees = 0;
  for (std::size_t m = 0; m < num_rows; m += kLanes) {
    const F32x16 m1 = load(into.max + m), m2 = load(from.max + m), s1 = load(into.sum + m), s2 = load(from.sum + m);
    const Mask16 has1 = !eq(s1, zero()), has2 = !eq(s2, zero());  // NaN counts as a sum
    const F32x16 largest = max(m1, m2);
    const F32x16 e1 = exp2(m1 - largest), e2 = exp2(m2 - largest);
    store(w1 + m, e1);
    store(w2 + m, e2);
    store(into.max + m, select(has2, select(has1, largest, m2), m1));
    store(into.sum + m, select(has2, select(has1, s1 * e1 + s2 * e2, s2), s1));
    had |= mask_bits(has1) << m;
    sees |= mask_bits(has2) << m;
  }
  for (std::size_t m = 0; m < num_rows; ++m) {
    if ((sees >> m & 1u) == 0) continue;
    const float* o2 = from.o + m * from.o_stride;
    float* o1 = into.o + m * width;
    if ((had >> m & 1u) == 0) {
      for (std::size_t d = 0; d < width; d += kLanes) store(o1 + d, load(o2 + d) + zero());
      continue;
    }
    const F32x16 e1 = broadcast(w1[m]), e2 = broadcast(w2[m]);
    for (std::size_t d = 0; d < width; d += kLanes) store(o1 + d, load(o1 + d) * e1 + (load(o2 + d) + zero()) * e2);
  }
}

// The same, from the records of a strip.
void merge_records(const float* records, Partial into, std::size_t num_rows, std::size_t width) {
  alignas(64) float maxima[kSpanRows], sums[kSpanRows];
  clear({maxima, sums, nullptr});
  const std::size_t stride = width + kLanes;
  for (std::size_t m = 0; m < num_rows; ++m) {
    maxima[m] = records[m * stride + width];
    sums[m] = records[m * stride + width + 1];
  }
  merge_partial({maxima, sums, records, stride}, into, num_rows, width);
}

void put_records(Partial from, float* records, std::size_t num_rows, std::size_t width) {
  const std::size_t stride = width + kLanes;
  for (std::size_t m = 0; m < num_rows; ++m, records += stride) {
    records[width] = from.max[m];
    records[width + 1] = from.sum[m];
    if (from.sum[m] == 0.0f) continue;  // O of such a row is never read
    for (std::size_t d = 0; d < width; d += kLanes) store(records + d, load(from.o + m * width + d));
  }
}

// out = O / sum; 0 for a row without keys.
template <class T>
void write_out(const SpanUnit& unit, Partial total) {
  const std::size_t width = index(unit.layout->value_width), head_dim = index(unit.layout->head_dim);
  std::size_t m = 0;
  for (std::int32_t r = 0; r < unit.num_rows; ++r) {
    for (std::int32_t h = 0; h < unit.num_heads; ++h, ++m) {
      T* out = static_cast<T*>(unit.out) + place_of(unit, r) * unit.out_row_stride + h * unit.out_head_stride;
      const F32x16 s = broadcast(total.sum[m]);
      const bool seen = !(total.sum[m] == 0.0f);
      for (std::size_t d = 0; d < head_dim; d += kLanes) {
        const F32x16 value = seen ? load(total.o + m * width + d) / s : zero();
        write_tail(out + d, value, lanes_left(head_dim - d));
      }
    }
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
