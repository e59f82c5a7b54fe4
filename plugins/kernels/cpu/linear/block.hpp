// plugins/kernels/cpu/linear/block.hpp: what the vector kernels of linear and linear_widened share: prepared rows, a
// block of products over depth tiles, and y.
//
// A policy W says how weights are stored and read, and the order of the sums:
//   kPairs false (class cpu-bf16/1, cpu-f32/1): a block keeps both chains of every output in registers for one depth
//     tile. The accumulators are used once per depth tile and stay in memory.
//   kPairs true (class cpu-bf16-pairs/1): a block keeps the single chain of every output in registers for all depth
//     tiles of a call.
// Row is the type of prepared rows, Element the type of weights as the kernel reads them.
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/vec/io.hpp"
#include "kernels/cpu/vec/pairs.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Rows of a block, at most, and panels whose accumulators lie side by side in memory. A block takes panels_at_once of
// them. Registers of tiles: two chains x rows x panels, the weights of each panel for both chains, and one broadcast of
// x. Registers of pairs: one chain x rows x panels, the weights of each panel, and one broadcast.
#if defined(MORTISE_ISA_AVX512) || defined(MORTISE_EMULATED_DOT)
constexpr std::size_t kRowBlock = 6, kTilePanels = 2, kPairPanels = 4;  // 24 + 4 + 1 of 32, for both orders
constexpr std::size_t kRowsOfBothChains = 6;
constexpr std::size_t panels_at_once(bool pairs, std::size_t) {
  return pairs ? kPairPanels : kTilePanels;
}
#elif defined(MORTISE_ISA_AVX2)  // a vector is two registers: 12 + 2 + 1 of 16
constexpr std::size_t kRowBlock = 6, kTilePanels = 1, kPairPanels = 4;
constexpr std::size_t kRowsOfBothChains = 3;  // more rows: one chain after the other
// A single chain leaves the multipliers idle while each sum waits for the one before it, so few rows take more panels.
constexpr std::size_t panels_at_once(bool pairs, std::size_t rows) {
  return !pairs || rows > 3 ? 1 : rows > 1 ? 2 : 4;
}
#elif defined(MORTISE_ISA_NEON)  // a vector is four registers: 20 + 4 + 5 (x) of 32; both chains 16 + 8 + 4
constexpr std::size_t kRowBlock = 5, kTilePanels = 1, kPairPanels = 2;
constexpr std::size_t kRowsOfBothChains = 2;
constexpr std::size_t panels_at_once(bool pairs, std::size_t rows) {
  return pairs && rows <= 2 ? 2 : 1;
}
#else
constexpr std::size_t kRowBlock = 1, kTilePanels = 1, kPairPanels = 1;
constexpr std::size_t kRowsOfBothChains = 1;
constexpr std::size_t panels_at_once(bool, std::size_t) {
  return 1;
}
#endif
constexpr std::size_t kDepthTile = 32;      // elements of K in a depth tile
constexpr std::size_t kBlockBytes = 16384;  // of weights that stay in the first-level cache for all rows
constexpr std::size_t kChunkRows = 240;     // the accumulators of this many rows stay in the second-level cache

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t depth_tiles_of(std::size_t k) {
  return (k + kDepthTile - 1) / kDepthTile;
}
// Prepared rows are one cache line longer than needed: rows a power of two apart would all share the same cache sets.
template <class Row>
constexpr std::size_t prepared_stride(std::size_t k) {
  return depth_tiles_of(k) * kDepthTile + 64 / sizeof(Row);
}

// Where the weights of a pair (even k, odd k) are, and how they are multiplied. Has no state.
struct PackedBf16 {
  using Element = Bf16;
  using Row = float;
  static constexpr bool kPairs = false;
  static constexpr std::size_t kPanels = kTilePanels;
  static MORTISE_INLINE F32x16 even(const Bf16* w) { return even_of(load_pairs(w)); }
  static MORTISE_INLINE F32x16 odd(const Bf16* w) { return odd_of(load_pairs(w)); }
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma_exact_product(a, b, c); }
};
// The same for weights in f32. Has no state.
struct PackedF32 {
  using Element = float;
  using Row = float;
  static constexpr bool kPairs = false;
  static constexpr std::size_t kPanels = kTilePanels;
  static MORTISE_INLINE F32x16 even(const float* w) { return load(w); }
  static MORTISE_INLINE F32x16 odd(const float* w) { return load(w + kLanes); }
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma(a, b, c); }
  // Stores a widened pair.
  static MORTISE_INLINE void put(float* w, F32x16 even, F32x16 odd) {
    store(w, even);
    store(w + kLanes, odd);
  }
};
// Weights that linear_widened has widened to f32, times bf16: the product has at most 12 bits. Has no state.
struct WidenedBits : PackedF32 {
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma_exact_product(a, b, c); }
};

#if defined(MORTISE_ISA_NEON)
// W with FMAs that flush before they round (vec/neon.hpp).
template <class W>
struct Flushed : W {
  static MORTISE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return fma_flushed(a, b, c); }
};
template <class W>
constexpr bool kIsFlushed = false;
template <class W>
constexpr bool kIsFlushed<Flushed<W>> = true;
#endif

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
void multiply_tiles(const float* x, std::size_t x_stride, const typename W::Element* w, std::size_t w_stride,
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
        float* sum = acc + (i * W::kPanels + j) * kLanes;
        store(sum, load(sum) + (a.values[i][j] + b.values[i][j]));
      }
    }
    x += kDepthTile;
    w += kDepthTile * kLanes;
  }
}

// One step of every chain of a block in pairs: the odd k of a pair, then its even k.
template <class W, std::size_t rows, std::size_t panels>
MORTISE_INLINE void add_pair(const float* x, std::size_t x_stride, const typename W::Element* w, std::size_t w_stride,
                             Sums<rows, panels>& sums) {
  add_half<W, true>(x, x_stride, w, w_stride, sums);
  add_half<W, false>(x, x_stride, w, w_stride, sums);
}
// The same by dot_pairs: x and w hold pairs of bf16.
template <class W, std::size_t rows, std::size_t panels>
MORTISE_INLINE void add_pair(const Bf16* x, std::size_t x_stride, const Bf16* w, std::size_t w_stride,
                             Sums<rows, panels>& sums) {
  I32x16 weights[panels];
#pragma GCC unroll 4
  for (std::size_t j = 0; j < panels; ++j) weights[j] = load_pairs(w + j * w_stride);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i) {
    const I32x16 factors = broadcast_pair(x + i * x_stride);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) {
      sums.values[i][j] = dot_pairs(sums.values[i][j], factors, weights[j]);
    }
  }
}

// The order in pairs: every chain continues from acc. noinline for the reason of add_chain.
template <class W, std::size_t rows, std::size_t panels>
[[gnu::noinline]] void multiply_pairs(const typename W::Row* x, std::size_t x_stride, const typename W::Element* w,
                                      std::size_t w_stride, std::size_t tiles, float* acc) {
  Sums<rows, panels> sums;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) sums.values[i][j] = load(acc + (i * W::kPanels + j) * kLanes);
  }
  for (std::size_t pair = 0; pair < tiles * (kDepthTile / 2); ++pair) {
    // A depth tile ahead: with few rows the weights come from memory.
    for (std::size_t j = 0; j < panels; ++j) __builtin_prefetch(w + j * w_stride + (kDepthTile + pair * 2) * kLanes);
    add_pair<W>(x + pair * 2, x_stride, w + pair * 2 * kLanes, w_stride, sums);
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < panels; ++j) store(acc + (i * W::kPanels + j) * kLanes, sums.values[i][j]);
  }
}

template <class W, std::size_t rows, std::size_t panels>
MORTISE_INLINE void multiply_block(const typename W::Row* x, std::size_t x_stride, const typename W::Element* w,
                                   std::size_t w_stride, std::size_t tiles, float* acc) {
#if defined(MORTISE_ISA_NEON)
  if constexpr (!kIsFlushed<W>) {
    float before[rows][panels * kLanes];
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(before[i], acc + i * W::kPanels * kLanes, sizeof before[i]);
    clear_flushed();
    multiply_block<Flushed<W>, rows, panels>(x, x_stride, w, w_stride, tiles, acc);
    if (!has_flushed(acc)) return;
    for (std::size_t i = 0; i < rows; ++i) std::memcpy(acc + i * W::kPanels * kLanes, before[i], sizeof before[i]);
  }
#endif
  if constexpr (W::kPairs) {
    multiply_pairs<W, rows, panels>(x, x_stride, w, w_stride, tiles, acc);
  } else {
    multiply_tiles<W, rows, panels>(x, x_stride, w, w_stride, tiles, acc);
  }
}

// m rows times `panels` panels, at most W::kPanels.
template <class W, std::size_t rows = kRowBlock>
void multiply_rows(const typename W::Row* x, std::size_t x_stride, std::size_t m, const typename W::Element* w,
                   std::size_t w_stride, std::size_t panels, std::size_t tiles, float* acc) {
  constexpr std::size_t kAtOnce = minimum(panels_at_once(W::kPairs, rows), W::kPanels);
  for (; m >= rows; m -= rows) {
    std::size_t j = 0;
    for (; j + kAtOnce <= panels; j += kAtOnce) {
      multiply_block<W, rows, kAtOnce>(x, x_stride, w + j * w_stride, w_stride, tiles, acc + j * kLanes);
    }
    if constexpr (kAtOnce > 1) {
      for (; j < panels; ++j) {
        multiply_block<W, rows, 1>(x, x_stride, w + j * w_stride, w_stride, tiles, acc + j * kLanes);
      }
    }
    x += rows * x_stride;
    acc += rows * W::kPanels * kLanes;
  }
  if constexpr (rows > 1) {
    if (m > 0) multiply_rows<W, rows - 1>(x, x_stride, m, w, w_stride, panels, tiles, acc);
  }
}

template <class W, class Y>
void finish(const LinearArgs& args, std::size_t m0, std::size_t rows, std::size_t column, std::size_t panels,
            const float* acc) {
  for (std::size_t j = 0; j < panels; ++j) {
    const std::size_t n = column + j * kLanes;
    const std::size_t count = lanes_left(args.n - n);
    const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + n, count) : zero();
    for (std::size_t i = 0; i < rows; ++i) {
      F32x16 y = load(acc + (i * W::kPanels + j) * kLanes);
      if (args.bias != nullptr) y = y + bias;
      write_tail(static_cast<Y*>(args.y) + (m0 + i) * args.y_stride + n, y, count);
    }
  }
}

template <class Row>
std::size_t scratch_bytes(std::size_t m, std::size_t k) {
  return m * prepared_stride<Row>(k) * sizeof(Row);
}

// Prepared rows: of type Row, filled up with zeros to a whole depth tile.
template <class X, class Row>
void prepare(const LinearArgs& args, std::size_t m0, std::size_t m1) {
  const std::size_t stride = prepared_stride<Row>(args.k), padded = depth_tiles_of(args.k) * kDepthTile;
  for (std::size_t m = m0; m < m1; ++m) {
    const X* x = static_cast<const X*>(args.x) + m * args.x_stride;
    Row* out = static_cast<Row*>(args.scratch) + m * stride;
    std::size_t k = 0;
    for (; k + kLanes <= args.k; k += kLanes) write(out + k, read(x + k));
    if (k < args.k) write(out + k, read_tail(x + k, args.k - k)), k += kLanes;
    if (k < padded) write(out + k, zero());
  }
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
