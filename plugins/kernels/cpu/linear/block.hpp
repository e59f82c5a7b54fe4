// block.hpp: what the vector kernels of linear and linear_fp8 share: prepared rows, a block of products over depth
// tiles, and y. A block of kRowBlock rows x kPanelBlock panels keeps both chains of every output in registers for one
// depth tile. The accumulators are used once per depth tile and stay in memory.
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Registers: two chains x rows x panels, the weights of each panel for both chains, and one broadcast of x.
#if defined(MORTISE_ISA_AVX512)
constexpr std::size_t kRowBlock = 6, kPanelBlock = 2;  // 24 + 4 + 1 of 32
constexpr std::size_t kRowsOfBothChains = 6;
#elif defined(MORTISE_ISA_AVX2)
constexpr std::size_t kRowBlock = 6, kPanelBlock = 1;  // a vector is two registers: 12 + 2 + 1 of 16
constexpr std::size_t kRowsOfBothChains = 3;           // more rows: one chain after the other
#else
constexpr std::size_t kRowBlock = 1, kPanelBlock = 1;
constexpr std::size_t kRowsOfBothChains = 1;
#endif
constexpr std::size_t kDepthTile = 32;   // elements of K in a depth tile
constexpr std::size_t kBlockTiles = 8;   // depth tiles whose weights stay in the first-level cache for all rows
constexpr std::size_t kChunkRows = 240;  // the accumulators of this many rows stay in the second-level cache

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t depth_tiles_of(std::size_t k) {
  return (k + kDepthTile - 1) / kDepthTile;
}
// Prepared rows are one cache line longer than needed: rows a power of two apart would all share the same cache sets.
constexpr std::size_t prepared_stride(std::size_t k) {
  return depth_tiles_of(k) * kDepthTile + kLanes;
}

// Where the weights of a pair (even k, odd k) are, and how they are multiplied. Has no state.
struct PackedBf16 {
  using Element = Bf16;
  static MORTISE_INLINE I32x16 both(const Bf16* w) { return load_i32(reinterpret_cast<const std::int32_t*>(w)); }
  static MORTISE_INLINE F32x16 even(const Bf16* w) { return from_bits(shift_left<16>(both(w))); }
  static MORTISE_INLINE F32x16 odd(const Bf16* w) {
    return from_bits(both(w) & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)));
  }
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma_exact_product(a, b, c); }
};
// The same for weights in f32. Has no state.
struct PackedF32 {
  using Element = float;
  static MORTISE_INLINE F32x16 even(const float* w) { return load(w); }
  static MORTISE_INLINE F32x16 odd(const float* w) { return load(w + kLanes); }
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma(a, b, c); }
};

template <std::size_t rows, std::size_t panels>
struct Sums {
  F32x16 values[rows][panels];
};

// sums[i][j] += x[i] times the even or odd k of a pair of panel j: one step of a chain.
template <class W, bool odd, std::size_t rows, std::size_t panels>
MORTISE_INLINE void add_half(const float* x, std::size_t x_stride, const typename W::Element* w, std::size_t w_stride,
                             Sums<rows, panels>& sums) {
  F32x16 weights[panels];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < panels; ++j) weights[j] = odd ? W::odd(w + j * w_stride) : W::even(w + j * w_stride);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i) {
    const F32x16 factor = broadcast(x[i * x_stride + odd]);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) sums.values[i][j] = W::multiply_add(factor, weights[j], sums.values[i][j]);
  }
}

template <std::size_t rows, std::size_t panels>
MORTISE_INLINE void clear(Sums<rows, panels>& sums) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) sums.values[i][j] = zero();
  }
}

// Computes one chain of a depth tile. noinline: inlined, its sums would not all fit into registers, and with a sum in
// memory each multiplication waits for the store before it.
template <class W, bool odd, std::size_t rows, std::size_t panels>
[[gnu::noinline]] void add_chain(const float* x, std::size_t x_stride, const typename W::Element* w,
                                 std::size_t w_stride, Sums<rows, panels>& out) {
  Sums<rows, panels> sums;
  clear(sums);
  for (std::size_t pair = 0; pair < kDepthTile / 2; ++pair) {
    // Prefetches the next depth tile during the first of this one's two chains.
    if (!odd) __builtin_prefetch(w + (kDepthTile + pair * 2) * kLanes);
    add_half<W, odd>(x + pair * 2, x_stride, w + pair * 2 * kLanes, w_stride, sums);
  }
  out = sums;
}

// acc[i][j] += the depth tiles [0, tiles) in ascending order. Rows of x are x_stride apart, panels w_stride apart.
template <class W, std::size_t rows, std::size_t panels>
void multiply_block(const float* x, std::size_t x_stride, const typename W::Element* w, std::size_t w_stride,
                    std::size_t tiles, float* acc) {
  for (std::size_t t = 0; t < tiles; ++t) {
    Sums<rows, panels> a, b;
    if constexpr (rows <= kRowsOfBothChains) {
      clear(a);
      clear(b);
#pragma GCC unroll 2
      for (std::size_t pair = 0; pair < kDepthTile / 2; ++pair) {
        add_half<W, false>(x + pair * 2, x_stride, w + pair * 2 * kLanes, w_stride, a);
        add_half<W, true>(x + pair * 2, x_stride, w + pair * 2 * kLanes, w_stride, b);
      }
    } else {
      add_chain<W, false>(x, x_stride, w, w_stride, a);
      add_chain<W, true>(x, x_stride, w, w_stride, b);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < panels; ++j) {
        float* sum = acc + i * kPanelBlock * kLanes + j * kLanes;
        store(sum, load(sum) + (a.values[i][j] + b.values[i][j]));
      }
    }
    x += kDepthTile;
    w += kDepthTile * kLanes;
  }
}

template <class W, std::size_t panels, std::size_t rows = kRowBlock>
void multiply_rows(const float* x, std::size_t x_stride, std::size_t m, const typename W::Element* w,
                   std::size_t w_stride, std::size_t tiles, float* acc) {
  for (; m >= rows; m -= rows) {
    multiply_block<W, rows, panels>(x, x_stride, w, w_stride, tiles, acc);
    x += rows * x_stride;
    acc += rows * kPanelBlock * kLanes;
  }
  if constexpr (rows > 1) {
    if (m > 0) multiply_rows<W, panels, rows - 1>(x, x_stride, m, w, w_stride, tiles, acc);
  }
}

template <class Y>
void finish(const LinearArgs& args, std::size_t m0, std::size_t rows, std::size_t column, std::size_t panels,
            const float* acc) {
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t n = column + j * kLanes;
    const std::size_t count = lanes_left(args.n - n);
    const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + n, count) : zero();
    for (std::size_t i = 0; i < rows; ++i) {
      F32x16 y = load(acc + (i * kPanelBlock + j) * kLanes);
      if (args.bias != nullptr) y = y + bias;
      write_tail(static_cast<Y*>(args.y) + (m0 + i) * args.y_stride + n, y, count);
    }
  }
}

std::size_t scratch_bytes(std::size_t m, std::size_t k) {
  return m * prepared_stride(k) * sizeof(float);
}

template <class X>
void prepare(const LinearArgs& args, std::size_t m0, std::size_t m1) {
  const std::size_t stride = prepared_stride(args.k), padded = depth_tiles_of(args.k) * kDepthTile;
  for (std::size_t m = m0; m < m1; ++m) {
    const X* x = static_cast<const X*>(args.x) + m * args.x_stride;
    float* out = static_cast<float*>(args.scratch) + m * stride;
    std::size_t k = 0;
    for (; k + kLanes <= args.k; k += kLanes) store(out + k, read(x + k));
    if (k < args.k) store(out + k, read_tail(x + k, args.k - k)), k += kLanes;
    if (k < padded) store(out + k, zero());
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
