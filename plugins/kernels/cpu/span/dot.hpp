// plugins/kernels/cpu/span/dot.hpp: the two products of a span on vectors, in the order of linear. A depth tile is 32
// products of one sum. Each depth tile has an FMA chain a over even indices and b over odd indices, both from 0; then
// acc = acc + (a + b). Q and P are f32 in scratch (exact copies of bf16 values in class cpu-bf16/1) and are broadcast.
// K and V, of type E, are read in place, or, for many rows, widened to f32 once per depth tile. Both chains of a block
// of rows and chunks (sixteen keys or columns) stay in registers for one depth tile; the sums are used once per depth
// tile and stay in memory.
#pragma once

#include "kernels/cpu/span/softmax.hpp"
#include "kernels/cpu/span/unit.hpp"
#include "kernels/cpu/vec/pairs.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// How sums are added, and the form of Q and P. Have no state.
struct TileOrder {
  using Row = float;
  static constexpr bool kPairs = false;
};
struct PairOrder {
  using Row = float;
  static constexpr bool kPairs = true;
};
struct DotOrder {
  using Row = Bf16;
  static constexpr bool kPairs = true;
};

// Rows of a block, in descending order of preference, and its chunks. Chains of rows x chunks (two of each for tiles),
// and a pair per chunk, fill the registers.
#if defined(MORTISE_ISA_AVX512) || defined(MORTISE_EMULATED_DOT)
constexpr int block_rows(bool) {
  return 6;
}
constexpr int next_rows(bool, int rows) {
  return rows == 6 ? 4 : rows / 2;
}
constexpr int chunks_of(bool pairs, int rows) {
  return pairs || rows < 4 ? 4 : 2;
}
#elif defined(MORTISE_ISA_AVX2)  // a vector is two registers
constexpr int block_rows(bool pairs) {
  return pairs ? 6 : 3;
}
constexpr int next_rows(bool, int rows) {
  return rows == 6 ? 3 : rows - 1;
}
constexpr int chunks_of(bool pairs, int rows) {
  const int chains = rows * (pairs ? 1 : 2);
  return chains > 3 ? 1 : chains > 1 ? 2 : 4;
}
#elif defined(MORTISE_ISA_NEON)  // a vector is four registers: 16 + 8 + 4 of 32
constexpr int block_rows(bool pairs) {
  return pairs ? 4 : 2;
}
constexpr int next_rows(bool, int rows) {
  return rows == 4 ? 2 : rows - 1;
}
constexpr int chunks_of(bool pairs, int rows) {
  return rows * (pairs ? 1 : 2) > 2 ? 1 : 2;
}
#else
constexpr int block_rows(bool) {
  return 1;
}
constexpr int next_rows(bool, int) {
  return 0;
}
constexpr int chunks_of(bool, int) {
  return 1;
}
#endif
// With at least this many rows, widening a depth tile once beats splitting its pairs for each block of rows.
constexpr std::size_t kWidenRows = 12;
constexpr std::size_t kGroupsAtOnce = 4;
constexpr std::size_t kHalfPairs = kTileDepth / 4;

MORTISE_INLINE F32x16 chain(const Bf16*, F32x16 a, F32x16 b, F32x16 c) {
  return fma_exact_product(a, b, c);
}
MORTISE_INLINE F32x16 chain(const float*, F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}

#if defined(MORTISE_ISA_NEON)
// A Source whose FMAs flush before they round (vec/neon.hpp).
template <class T>
struct FlushedElement {};
template <class Source>
struct FlushedSource : Source {
  using Element = FlushedElement<typename Source::Element>;
};
template <class Source>
constexpr bool kIsFlushedSource = false;
template <class Source>
constexpr bool kIsFlushedSource<FlushedSource<Source>> = true;
template <class T>
MORTISE_INLINE F32x16 chain(const FlushedElement<T>*, F32x16 a, F32x16 b, F32x16 c) {
  return fma_flushed(a, b, c);
}
#endif

// A depth tile is read as even and odd elements: even(half, p, chunk) and odd(half, p, chunk), p < kHalfPairs. The even
// and the odd vectors are loaded separately, because together they would exceed the registers of AVX2. both(half, p,
// chunk) joins them as pairs of bf16. T decides how products are rounded.

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
      return even_of(load_pairs(at(half, p, chunk)));
    } else {
      return read(at(half, p, chunk));
    }
  }
  MORTISE_INLINE F32x16 odd(std::size_t half, std::size_t p, std::size_t chunk) const {
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return odd_of(load_pairs(at(half, p, chunk)));
    } else {
      return read(at(half, p, chunk) + kLanes);
    }
  }
  MORTISE_INLINE I32x16 both(std::size_t half, std::size_t p, std::size_t chunk) const {
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return load_pairs(at(half, p, chunk));
    } else {
      return join_pairs(even(half, p, chunk), odd(half, p, chunk));
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
      return even_of(load_pairs(row + 2 * chunk * kLanes));
    } else {
      return read(row + chunk * kLanes);
    }
  }
  MORTISE_INLINE F32x16 odd(std::size_t half, std::size_t p, std::size_t chunk) const {
    const E* row = halves[half] + p * 2 * width;
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return odd_of(load_pairs(row + 2 * chunk * kLanes));
    } else {
      return read(row + width + chunk * kLanes);
    }
  }
  MORTISE_INLINE I32x16 both(std::size_t half, std::size_t p, std::size_t chunk) const {
    if constexpr (sizeof(E) == sizeof(Bf16)) {
      return load_pairs(halves[half] + p * 2 * width + 2 * chunk * kLanes);
    } else {
      return join_pairs(even(half, p, chunk), odd(half, p, chunk));
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

// The same as pairs of bf16: [chunk][pair][16]. A value; borrows the pairs.
template <class T>
struct JoinedPairs {
  using Element = T;
  const std::int32_t* tile;
  MORTISE_INLINE I32x16 both(std::size_t half, std::size_t p, std::size_t chunk) const {
    return load_i32(tile + (chunk * kTileDepth / 2 + half * kHalfPairs + p) * kLanes);
  }
};

// Widens a depth tile into `tile`, in the form of Order.
template <class Order, class Source>
MORTISE_INLINE auto widen(const Source& pairs, std::size_t chunks, float* tile) {
  if constexpr (sizeof(typename Order::Row) == sizeof(Bf16)) {
    std::int32_t* to = reinterpret_cast<std::int32_t*>(tile);
    for (std::size_t c = 0; c < chunks; ++c) {
      for (std::size_t half = 0; half < 2; ++half) {
        for (std::size_t p = 0; p < kHalfPairs; ++p, to += kLanes) store(to, pairs.both(half, p, c));
      }
    }
    return JoinedPairs<typename Source::Element>{reinterpret_cast<std::int32_t*>(tile)};
  } else {
    float* to = tile;
    for (std::size_t c = 0; c < chunks; ++c) {
      for (std::size_t half = 0; half < 2; ++half) {
        for (std::size_t p = 0; p < kHalfPairs; ++p, to += 2 * kLanes) {
          store(to, pairs.even(half, p, c));
          store(to + kLanes, pairs.odd(half, p, c));
        }
      }
    }
    return WidePairs<typename Source::Element>{tile};
  }
}

// One depth tile of a product: x [rows, depth], sums [rows, 16 chunks]. `first`: start from 0 instead of from the sums.
template <class Row>
struct TileSum {
  const Row* x;
  std::size_t x_stride;
  std::size_t depth;  // of the depth tile: kTileDepth or less
  float* sums;
  std::size_t sums_stride;
  bool first;

  MORTISE_INLINE float* sum(std::size_t row, std::size_t chunk) const {
    return sums + row * sums_stride + chunk * kLanes;
  }
};

template <int R, int C>
struct Chains {
  F32x16 of[R][C];
};

// chains[r][c] += the even or odd elements of a pair.
template <bool odd, int R, int C, class Source>
MORTISE_INLINE void add_half(const float* x, std::size_t x_stride, std::size_t half, std::size_t p, std::size_t chunk,
                             const Source& pairs, Chains<R, C>& chains) {
  const typename Source::Element* const type = nullptr;
  F32x16 k[C];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const std::size_t at = chunk + static_cast<std::size_t>(c);
    k[c] = odd ? pairs.odd(half, p, at) : pairs.even(half, p, at);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const F32x16 factor = broadcast(x[static_cast<std::size_t>(r) * x_stride + 2 * p + odd]);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) chains.of[r][c] = chain(type, factor, k[c], chains.of[r][c]);
  }
}

// chains[r][c] += a pair, its odd element first.
template <int R, int C, class Source>
MORTISE_INLINE void add_pair(const float* x, std::size_t x_stride, std::size_t half, std::size_t p, std::size_t chunk,
                             const Source& pairs, Chains<R, C>& chains) {
  add_half<true>(x, x_stride, half, p, chunk, pairs, chains);
  add_half<false>(x, x_stride, half, p, chunk, pairs, chains);
}
template <int R, int C, class Source>
MORTISE_INLINE void add_pair(const Bf16* x, std::size_t x_stride, std::size_t half, std::size_t p, std::size_t chunk,
                             const Source& pairs, Chains<R, C>& chains) {
  I32x16 k[C];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) k[c] = pairs.both(half, p, chunk + static_cast<std::size_t>(c));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const I32x16 factors = broadcast_pair(x + static_cast<std::size_t>(r) * x_stride + 2 * p);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) chains.of[r][c] = dot_pairs(chains.of[r][c], factors, k[c]);
  }
}

template <class Order, int R, int C, class Source>
MORTISE_INLINE void multiply_block(const TileSum<typename Order::Row>& t, std::size_t row, std::size_t chunk,
                                   const Source& pairs) {
#if defined(MORTISE_ISA_NEON)
  if constexpr (!kIsFlushedSource<Source>) {
    float before[R][C * kLanes];
    for (std::size_t r = 0; r < R && !t.first; ++r) std::memcpy(before[r], t.sum(row + r, chunk), sizeof before[r]);
    clear_flushed();
    multiply_block<Order, R, C>(t, row, chunk, FlushedSource<Source>{pairs});
    if (!has_flushed(t.sums)) return;
    for (std::size_t r = 0; r < R && !t.first; ++r) std::memcpy(t.sum(row + r, chunk), before[r], sizeof before[r]);
  }
#endif
  Chains<R, C> a, b;
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      const bool continues = Order::kPairs && !t.first;
      const float* sum = t.sum(row + static_cast<std::size_t>(r), chunk + static_cast<std::size_t>(c));
      a.of[r][c] = continues ? load(sum) : zero();
      b.of[r][c] = zero();
    }
  }
  for (std::size_t half = 0; half < 2; ++half) {
    const std::size_t begin = half * kTileDepth / 2;
    if (begin >= t.depth) break;
    const std::size_t count = t.depth - begin < kTileDepth / 2 ? (t.depth - begin) / 2 : kHalfPairs;
    const auto* x = t.x + row * t.x_stride + begin;
    for (std::size_t p = 0; p < count; ++p) {
      if constexpr (Order::kPairs) {
        add_pair(x, t.x_stride, half, p, chunk, pairs, a);
      } else {
        add_half<false>(x, t.x_stride, half, p, chunk, pairs, a);
        add_half<true>(x, t.x_stride, half, p, chunk, pairs, b);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      float* sum = t.sum(row + static_cast<std::size_t>(r), chunk + static_cast<std::size_t>(c));
      if constexpr (Order::kPairs) {
        store(sum, a.of[r][c]);
      } else {
        store(sum, (t.first ? zero() : load(sum)) + (a.of[r][c] + b.of[r][c]));
      }
    }
  }
}

// All chunks for R rows: C at a time, then the rest with smaller C.
template <class Order, int R, int C, class Source>
MORTISE_INLINE void multiply_chunks(const TileSum<typename Order::Row>& t, std::size_t row, std::size_t chunk,
                                    std::size_t chunks, const Source& pairs) {
  for (; chunk + C <= chunks; chunk += C) multiply_block<Order, R, C>(t, row, chunk, pairs);
  if constexpr (C > 1) {
    if (chunk < chunks) multiply_chunks<Order, R, C / 2>(t, row, chunk, chunks, pairs);
  }
}

// All rows: R at a time, then the rest with smaller R.
template <class Order, int R, class Source>
MORTISE_INLINE void multiply_tile(const TileSum<typename Order::Row>& t, std::size_t row, std::size_t rows,
                                  std::size_t chunks, const Source& pairs) {
  for (; row + R <= rows; row += R) {
    multiply_chunks<Order, R, chunks_of(Order::kPairs, R)>(t, row, 0, chunks, pairs);
  }
  if constexpr (R > 1) {
    if (row < rows) multiply_tile<Order, next_rows(Order::kPairs, R)>(t, row, rows, chunks, pairs);
  }
}

// The Products of span/unit.hpp on vectors: the two products, and the softmax between them. Has no state; the scratch
// belongs to one thread.
template <class T, class E = T, class Order = TileOrder>
struct VecProducts {
  using Stored = E;
  using Tiles = ValueTiles<E>;  // K is read in place
  using Row = typename Order::Row;

  // Copies the queries in the form of Order; row m = token * num_heads + head, padded with zeros to key_depth.
  static void begin(const SpanUnit& unit, SpanScratch& scratch) {
    const std::size_t depth = index(unit.layout->key_depth), head_dim = index(unit.layout->head_dim);
    Row* q = queries(scratch);
    for (std::int32_t r = 0; r < unit.num_rows; ++r) {
      for (std::int32_t h = 0; h < unit.num_heads; ++h, q += depth) {
        const T* from = static_cast<const T*>(unit.q) + place_of(unit, r) * unit.q_row_stride + h * unit.q_head_stride;
        for (std::size_t d = 0; d < depth; d += kLanes) {
          const std::size_t here = d < head_dim ? lanes_left(head_dim - d) : 0;
          write_tail(q + d, read_tail(from + d, here), lanes_left(depth - d));
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
    const Row* q = queries(scratch) + p.strip.first * depth;
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
    if constexpr (kDot) narrow_probabilities(p, scratch);
  }

  static void set_probabilities(const StripSpan& p, const SpanReader<E>& reader, const Tiles& tiles,
                                SpanScratch& scratch) {
    const std::size_t width = index(p.strip.unit.layout->value_width);
    const std::size_t first = index(p.range.begin) / kTileDepth, end = index(p.range.end) / kTileDepth;
    const Row* const p_rows = probabilities(scratch);
    for (std::size_t tile = first; tile < end; ++tile) {
      reader.fetch_next_keys(tile - first, end - first);
      multiply({p_rows + tile * kTileDepth, kSpanStride, kTileDepth, p.partial.o, width, tile == first}, p.strip.rows(),
               width / kLanes, ValuePairs<T, E>{tiles.half[tile], width}, scratch);
    }
  }

 private:
  static constexpr bool kDot = sizeof(Row) == sizeof(Bf16);

  // Where Q and P are. The memory for pairs of bf16 is that of AMX's tiles.
  static Row* queries(SpanScratch& scratch) {
    if constexpr (kDot) {
      return scratch.keys;
    } else {
      return scratch.q;
    }
  }
  static const Row* probabilities(const SpanScratch& scratch) {
    if constexpr (kDot) {
      return scratch.values;
    } else {
      return scratch.scores;
    }
  }

  // Copies the probabilities, which are bf16 numbers, to pairs of bf16.
  static void narrow_probabilities(const StripSpan& p, SpanScratch& scratch) {
    for (std::size_t m = 0; m < p.strip.rows(); ++m) {
      const std::size_t row = m * kSpanStride;
      for (std::size_t i = index(p.range.begin); i < index(p.range.end); i += kLanes) {
        store_bf16(scratch.values + row + i, load(scratch.scores + row + i));
      }
    }
  }

  template <class Source>
  static MORTISE_INLINE void multiply(const TileSum<Row>& t, std::size_t num_rows, std::size_t chunks,
                                      const Source& pairs, SpanScratch& scratch) {
    constexpr int kRows = block_rows(Order::kPairs);
    // Pairs of bf16 in the cache are what dot_pairs takes.
    constexpr bool kInPlace = kDot && sizeof(E) == sizeof(Bf16);
    if constexpr (sizeof(E) < sizeof(float) && kRows > 1 && !kInPlace) {
      if (num_rows >= kWidenRows) {
        multiply_tile<Order, kRows>(t, 0, num_rows, chunks, widen<Order>(pairs, chunks, scratch.tile));
        return;
      }
    }
    multiply_tile<Order, kRows>(t, 0, num_rows, chunks, pairs);
  }
};

// The three functions of a cache of type E for a model of type T.
template <class T, class Products>
constexpr SpanKernels span_kernels() {
  return {attend<T, Products>, fold<T, Products>, write_partials<T, Products>};
}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
