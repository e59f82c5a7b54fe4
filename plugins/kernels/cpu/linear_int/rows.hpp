// plugins/kernels/cpu/linear_int/rows.hpp: rows of x as int8, the first step of linear_int on every instruction set.
// The scratch holds int8 rows [M, x_stride], their scales f32 [M], and the sums of the int8 values per group i32 [M,
// groups]. M is rounded up to pairs of AMX tiles; the extra rows are never used.
#pragma once

#include "kernels/cpu/linear_int/linear_int.hpp"
#include "kernels/cpu/linear_int/scale.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr std::size_t kIntStep = 32;   // elements of K in a partial sum of linear_int/dot.hpp
constexpr std::size_t kIntDepth = 64;  // packed K is padded to a multiple of it: the depth of an AMX tile

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t int_depth(std::size_t k) {
  return (k + kIntDepth - 1) / kIntDepth * kIntDepth;
}
constexpr std::size_t int_groups(std::size_t k, std::size_t group_size) {
  return group_size >= k ? 1 : (k + group_size - 1) / group_size;
}

// Columns of a group; the padded K if a row is one group.
constexpr std::size_t int_group(std::size_t k, std::size_t group_size) {
  return group_size >= k ? int_depth(k) : group_size;
}

// Depth of an AMX tile, which never reaches into a second group.
constexpr std::size_t int_tile_depth(std::size_t group) {
  return group % kIntDepth == 0 ? kIntDepth : kIntStep;
}

// The rows of x as int8 with their scales and sums, in scratch that somebody else owns. A value.
struct IntRows {
  std::int8_t* x;
  std::size_t x_stride;
  float* scales;
  std::int32_t* sums;
  std::size_t groups;

  // An odd number of cache lines a row: rows a power of two apart would all share the same cache sets.
  static constexpr std::size_t stride(std::size_t k) { return (int_depth(k) / 64 | 1) * 64; }
  static constexpr std::size_t bytes(std::size_t m, std::size_t k, std::size_t group_size) {
    return padded(m) * stride(k) + m * (sizeof(float) + int_groups(k, group_size) * sizeof(std::int32_t));
  }
  static constexpr std::size_t padded(std::size_t m) { return (m + 31) / 32 * 32; }
};

MORTISE_INLINE IntRows int_rows(const LinearIntArgs& args) {
  IntRows rows;
  rows.x = static_cast<std::int8_t*>(args.scratch);
  rows.x_stride = IntRows::stride(args.k);
  rows.scales = reinterpret_cast<float*>(rows.x + IntRows::padded(args.m) * rows.x_stride);
  rows.sums = reinterpret_cast<std::int32_t*>(rows.scales + args.m);
  rows.groups = int_groups(args.k, args.format.group_size);
  return rows;
}

// Sixteen elements of a row from k on, with zeros after the end of the row.
template <class X>
MORTISE_INLINE F32x16 read_sixteen(const LinearIntArgs& args, const X* x, std::size_t k) {
  if (args.order == nullptr) return read_tail(x + k, lanes_left(args.k - k));
  X gathered[kLanes] = {};
  for (std::size_t i = 0; i < lanes_left(args.k - k); ++i) gathered[i] = x[args.order[k + i]];
  return read(gathered);
}

// Quantises the columns [first, end) of a row into out and returns their sum. Columns from K on are zeros.
template <class X>
MORTISE_INLINE std::int32_t quantize_columns(const LinearIntArgs& args, const X* x, F32x16 inverse, std::size_t first,
                                             std::size_t end, std::int8_t* out) {
  I32x16 sum = broadcast_i32(0);
  std::size_t k = first;
  if constexpr (sizeof(X) == sizeof(Bf16)) {
    for (const std::size_t whole = args.order == nullptr ? minimum(end, args.k) : 0; k + 2 * kLanes <= whole;
         k += 2 * kLanes) {
      F32x16 even, odd;
      read_even_odd(x + k, even, odd);
      const I32x16 q0 = to_int(even * inverse), q1 = to_int(odd * inverse);
      store_i8_even_odd(out + k, q0, q1);
      sum = sum + (q0 + q1);
    }
  }
  for (; k < end; k += kLanes) {
    const I32x16 q = k < args.k ? to_int(read_sixteen(args, x, k) * inverse) : broadcast_i32(0);
    store_i8(out + k, q);
    sum = sum + q;
  }
  alignas(64) std::int32_t parts[kLanes];
  store(parts, sum);
  std::int32_t total = 0;
  for (std::size_t i = 0; i < kLanes; ++i) total += parts[i];
  return total;
}

template <class X>
void quantize_rows(const LinearIntArgs& args, std::size_t m0, std::size_t m1) {
  const IntRows rows = int_rows(args);
  const std::size_t depth = int_depth(args.k), group = int_group(args.k, args.format.group_size);
  for (std::size_t m = m0; m < m1; ++m) {
    const X* x = static_cast<const X*>(args.x) + m * args.x_stride;
    std::int8_t* out = rows.x + m * rows.x_stride;
    std::int32_t* sums = rows.sums + m * rows.groups;
    const IntScale scale = int_scale(largest_magnitude(x, args.k));
    rows.scales[m] = scale.scale;
    if (scale.inverse == 0.0f) {  // not x * 0: x may hold a NaN
      std::memset(out, 0, depth);
      for (std::size_t g = 0; g < rows.groups; ++g) sums[g] = 0;
      continue;
    }
    const F32x16 inverse = broadcast(scale.inverse);
    for (std::size_t first = 0; first < args.k; first += group) {
      *sums++ = quantize_columns(args, x, inverse, first, minimum(first + group, depth), out);
    }
    // Groups of 32 may end 32 bytes before the end of an AMX tile.
    for (std::size_t k = (args.k + group - 1) / group * group; k < depth; ++k) out[k] = 0;
  }
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
