// plugins/kernels/cpu/span/dot.hpp: the two products of a span on vectors, in the order of linear. A depth tile is 32
// products of one sum. Each depth tile has an FMA chain a over even indices and b over odd indices, both from 0; then
// acc = acc + (a + b). Q and P are f32 in scratch (exact copies of bf16 values in class cpu-bf16/1) and are broadcast.
// K and V, of type E, are read in place, or, for many rows, widened to f32 once per depth tile. Both chains of a block
// of rows and chunks (sixteen keys or columns) stay in registers for one depth tile; the sums are used once per depth
// tile and stay in memory.
#pragma once

#include "kernels/cpu/span/softmax.hpp"
#include "kernels/cpu/span/unit.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Rows of a block, in descending order of preference, and its chunks: 2 chains x rows x chunks and a pair per chunk
// fill the registers.
#if defined(MORTISE_ISA_AVX512)
constexpr int kBlockRows = 6;
constexpr int next_rows(int rows) {
  return rows == 6 ? 4 : rows / 2;
}
constexpr int chunks_of(int rows) {
  return rows >= 4 ? 2 : 4;
}
#elif defined(MORTISE_ISA_AVX2)  // a vector is two registers
constexpr int kBlockRows = 3;
constexpr int next_rows(int rows) {
  return rows - 1;
}
constexpr int chunks_of(int rows) {
  return rows >= 2 ? 1 : 2;
}
#else
constexpr int kBlockRows = 1;
constexpr int next_rows(int) {
  return 0;
}
constexpr int chunks_of(int) {
  return 1;
}
#endif
// With at least this many rows, widening a depth tile once beats splitting its pairs for each block of rows.
constexpr std::size_t kWidenRows = 12;
constexpr std::size_t kGroupsAtOnce = 4;
constexpr std::size_t kHalfPairs = kTileDepth / 4;

// Sixteen pairs of bf16.
MORTISE_INLINE F32x16 even_of(const Bf16* pairs) {
  return from_bits(shift_left<16>(load_i32(reinterpret_cast<const std::int32_t*>(pairs))));
}
MORTISE_INLINE F32x16 odd_of(const Bf16* pairs) {
  const I32x16 both = load_i32(reinterpret_cast<const std::int32_t*>(pairs));
  return from_bits(both & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)));
}

MORTISE_INLINE F32x16 chain(const Bf16*, F32x16 a, F32x16 b, F32x16 c) {
  return fma_exact_product(a, b, c);
}
MORTISE_INLINE F32x16 chain(const float*, F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}

// A depth tile is read as even and odd elements: even(half, p, chunk) and odd(half, p, chunk), p < kHalfPairs. The even
// and the odd vectors are loaded separately, because together they would exceed the registers of AVX2. T decides how
// products are rounded.

// K: pairs of neighbours along head_dim, for the sixteen keys of each key group. A value; borrows K.
template <class T, class E>
struct KeyPairs {
  using Element = T;
  const E* const* groups;
  std::size_t depth;  // where the depth tile begins
  MORTISE_INLINE const E* at(std::size_t half, std::size_t p, std::size_t chunk) const {
    return groups[chunk] + (depth + (half * kHalfPairs + p) * 2) * kLanes;
  }
  MORTISE_INLINE F32x16 even(std::size_t half, std::size_t p, std::size_t chunk) const {
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return even_of(at(half, p, chunk));
    } else {
      return read(at(half, p, chunk));
    }
  }
  MORTISE_INLINE F32x16 odd(std::size_t half, std::size_t p, std::size_t chunk) const {
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return odd_of(at(half, p, chunk));
    } else {
      return read(at(half, p, chunk) + kLanes);
    }
  }
};

// V: pairs of neighbouring keys, for sixteen columns. A value; borrows V.
template <class T, class E>
struct ValuePairs {
  using Element = T;
  const E* const* halves;
  std::size_t width;
  MORTISE_INLINE F32x16 even(std::size_t half, std::size_t p, std::size_t chunk) const {
    const E* row = halves[half] + p * 2 * width;
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return even_of(row + 2 * chunk * kLanes);
    } else {
      return read(row + chunk * kLanes);
    }
  }
  MORTISE_INLINE F32x16 odd(std::size_t half, std::size_t p, std::size_t chunk) const {
    const E* row = halves[half] + p * 2 * width;
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return odd_of(row + 2 * chunk * kLanes);
    } else {
      return read(row + width + chunk * kLanes);
    }
  }
};

// A depth tile of bf16 or int8 after widening: [chunk][pair][2][16]. A value; borrows the floats.
template <class T>
struct WidePairs {
  using Element = T;
  const float* tile;
  MORTISE_INLINE const float* at(std::size_t half, std::size_t p, std::size_t chunk) const {
    return tile + (chunk * kTileDepth + (half * kHalfPairs + p) * 2) * kLanes;
  }
  MORTISE_INLINE F32x16 even(std::size_t half, std::size_t p, std::size_t chunk) const {
    return load(at(half, p, chunk));
  }
  MORTISE_INLINE F32x16 odd(std::size_t half, std::size_t p, std::size_t chunk) const {
    return load(at(half, p, chunk) + kLanes);
  }
};

template <class Pairs>
MORTISE_INLINE WidePairs<typename Pairs::Element> widen(const Pairs& pairs, std::size_t chunks, float* tile) {
  float* to = tile;
  for (std::size_t c = 0; c < chunks; ++c) {
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t p = 0; p < kHalfPairs; ++p, to += 2 * kLanes) {
        store(to, pairs.even(half, p, c));
        store(to + kLanes, pairs.odd(half, p, c));
      }
    }
  }
  return {tile};
}

// One depth tile of a product: x [rows, depth], sums [rows, 16 chunks]. `first`: start from 0 instead of from the sums.
struct TileSum {
  const float* x;
  std::size_t x_stride;
  std::size_t depth;  // of the depth tile: kTileDepth or less
  float* sums;
  std::size_t sums_stride;
  bool first;
};

template <int R, int C, class Pairs>
MORTISE_INLINE void multiply_block(const TileSum& t, std::size_t row, std::size_t chunk, const Pairs& pairs) {
  F32x16 a[R][C], b[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) a[r][c] = b[r][c] = zero();
  }
  const typename Pairs::Element* const type = nullptr;
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t begin = half * kTileDepth / 2;
    if (begin >= t.depth) break;
    const std::size_t count = t.depth - begin < kTileDepth / 2 ? (t.depth - begin) / 2 : kHalfPairs;
    const float* x = t.x + row * t.x_stride + begin;
    for (std::size_t p = 0; p < count; ++p) {
      F32x16 k[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) k[c] = pairs.even(half, p, chunk + static_cast<std::size_t>(c));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x16 x_even = broadcast(x[static_cast<std::size_t>(r) * t.x_stride + 2 * p]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) a[r][c] = chain(type, x_even, k[c], a[r][c]);
      }
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) k[c] = pairs.odd(half, p, chunk + static_cast<std::size_t>(c));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32x16 x_odd = broadcast(x[static_cast<std::size_t>(r) * t.x_stride + 2 * p + 1]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) b[r][c] = chain(type, x_odd, k[c], b[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      float* sum =
          t.sums + (row + static_cast<std::size_t>(r)) * t.sums_stride + (chunk + static_cast<std::size_t>(c)) * kLanes;
      store(sum, (t.first ? zero() : load(sum)) + (a[r][c] + b[r][c]));
    }
  }
}

// All chunks for R rows: C at a time, then the rest with smaller C.
template <int R, int C, class Pairs>
MORTISE_INLINE void multiply_chunks(const TileSum& t, std::size_t row, std::size_t chunk, std::size_t chunks,
                                    const Pairs& pairs) {
  for (; chunk + C <= chunks; chunk += C) multiply_block<R, C>(t, row, chunk, pairs);
  if constexpr (C > 1) {
    if (chunk < chunks) multiply_chunks<R, C / 2>(t, row, chunk, chunks, pairs);
  }
}

// All rows: R at a time, then the rest with smaller R.
template <int R, class Pairs>
MORTISE_INLINE void multiply_tile(const TileSum& t, std::size_t row, std::size_t rows, std::size_t chunks,
                                  const Pairs& pairs) {
  for (; row + R <= rows; row += R) multiply_chunks<R, chunks_of(R)>(t, row, 0, chunks, pairs);
  if constexpr (R > 1) {
    if (row < rows) multiply_tile<next_rows(R)>(t, row, rows, chunks, pairs);
  }
}

// The Products of span/unit.hpp on vectors: the two products, and the softmax between them. Has no state; the scratch
// belongs to one thread.
template <class T, class E = T>
struct VecProducts {
  using Stored = E;
  using Tiles = ValueTiles<E>;  // K is read in place

  // Widens the queries to f32; row m = token * num_heads + head, padded with zeros to key_depth.
  static void begin(const SpanUnit& unit, SpanScratch& scratch) {
    const std::size_t depth = index(unit.layout->key_depth), head_dim = index(unit.layout->head_dim);
    float* q = scratch.q;
    for (std::int32_t r = 0; r < unit.num_rows; ++r) {
      for (std::int32_t h = 0; h < unit.num_heads; ++h, q += depth) {
        const T* from = static_cast<const T*>(unit.q) + place_of(unit, r) * unit.q_row_stride + h * unit.q_head_stride;
        for (std::size_t d = 0; d < depth; d += kLanes) {
          const std::size_t here = d < head_dim ? lanes_left(head_dim - d) : 0;
          store_tail(q + d, read_tail(from + d, here), lanes_left(depth - d));
        }
      }
    }
  }
  static void begin_strip(std::size_t, Tiles&) {}
  static void end() {}

  static void prepare_keys(const SpanReader<E>&, KeyRange, SpanScratch&, Tiles&) {}
  static void prepare_values(const SpanReader<E>&, const ValueTiles<E>& halves, std::size_t, std::size_t, SpanScratch&,
                             Tiles& tiles) {
    tiles = halves;
  }

  static void score(const StripSpan& p, const SpanReader<E>& reader, const Tiles&, SpanScratch& scratch) {
    const std::size_t depth = index(p.strip.unit.layout->key_depth);
    const float* q = scratch.q + p.strip.first * depth;
    const std::size_t end = (index(p.keys.end) + kLanes - 1) / kLanes;
    for (std::size_t group = index(p.keys.begin) / kLanes; group < end; group += kGroupsAtOnce) {
      const std::size_t count = end - group < kGroupsAtOnce ? end - group : kGroupsAtOnce;
      const E* groups[kGroupsAtOnce];
      for (std::size_t i = 0; i < count; ++i) {
        reader.fetch_values(static_cast<std::int32_t>(group + i));
        groups[i] = reader.keys(static_cast<std::int32_t>(group + i));
      }
      for (std::size_t d = 0; d < depth; d += kTileDepth) {
        const std::size_t here = depth - d < kTileDepth ? depth - d : kTileDepth;
        multiply({q + d, depth, here, scratch.scores + group * kLanes, kSpanStride, d == 0}, p.strip.rows(), count,
                 KeyPairs<T, E>{groups, d}, scratch);
      }
    }
    softmax_rows<T, E>(p, scratch);
  }

  static void set_probabilities(const StripSpan& p, const SpanReader<E>& reader, const Tiles& tiles,
                                SpanScratch& scratch) {
    const std::size_t width = index(p.strip.unit.layout->value_width);
    const std::size_t first = index(p.range.begin) / kTileDepth, end = index(p.range.end) / kTileDepth;
    for (std::size_t tile = first; tile < end; ++tile) {
      reader.fetch_next_keys(tile - first, end - first);
      multiply({scratch.scores + tile * kTileDepth, kSpanStride, kTileDepth, p.partial.o, width, tile == first},
               p.strip.rows(), width / kLanes, ValuePairs<T, E>{tiles.half[tile], width}, scratch);
    }
  }

 private:
  template <class Pairs>
  static MORTISE_INLINE void multiply(const TileSum& t, std::size_t num_rows, std::size_t chunks, const Pairs& pairs,
                                      SpanScratch& scratch) {
    if constexpr (sizeof(E) < sizeof(float) && kBlockRows > 1) {
      if (num_rows >= kWidenRows) {
        multiply_tile<kBlockRows>(t, 0, num_rows, chunks, widen(pairs, chunks, scratch.tile));
        return;
      }
    }
    multiply_tile<kBlockRows>(t, 0, num_rows, chunks, pairs);
  }
};

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
