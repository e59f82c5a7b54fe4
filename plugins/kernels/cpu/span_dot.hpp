// span_dot.hpp: the two products of a span over vec.hpp, in linear order: per 32-deep tile a = FMA chain over even
// indices, b = FMA chain over odd ones, both from 0, then acc += a + b.
// Q and P are f32 in scratch (exact copies of bf16 values in the bf16 class), broadcast; K and V are read as they lie.
#pragma once

#include "kernels/cpu/span_unit.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

// Rows (times column chunks) that fill the registers: two chains and a sum each, beside two operands.
#if defined(MORTISE_ISA_AVX512)
constexpr int kBlockRows = 8;
#elif defined(MORTISE_ISA_AVX2)
constexpr int kBlockRows = 2;
#else
constexpr int kBlockRows = 1;
#endif

struct Pair {
  F32x16 even, odd;
};

MORTISE_INLINE Pair split_pairs(const Bf16* p) {
  std::int32_t const* words = reinterpret_cast<const std::int32_t*>(p);
  const I32x16 both = load_i32(words);
  return {from_bits(shift_left<16>(both)), from_bits(both & broadcast_i32(static_cast<std::int32_t>(0xffff0000u)))};
}

// Pair `index` of a K group: two neighbours along head_dim, sixteen keys.
MORTISE_INLINE Pair load_key_pair(const Bf16* group, std::size_t index) {
  return split_pairs(group + index * 2 * kLanes);
}
MORTISE_INLINE Pair load_key_pair(const float* group, std::size_t index) {
  return {load(group + index * 2 * kLanes), load(group + index * 2 * kLanes + kLanes)};
}

// Pair `index` of a V group: two neighbouring keys, sixteen columns.
MORTISE_INLINE Pair load_value_pair(const Bf16* group, std::size_t index, std::size_t column, std::size_t width) {
  return split_pairs(group + index * 2 * width + 2 * column);
}
MORTISE_INLINE Pair load_value_pair(const float* group, std::size_t index, std::size_t column, std::size_t width) {
  const float* row = group + index * 2 * width + column;
  return {load(row), load(row + width)};
}

MORTISE_INLINE F32x16 chain(const Bf16*, F32x16 a, F32x16 b, F32x16 c) {
  return fma_exact_product(a, b, c);
}
MORTISE_INLINE F32x16 chain(const float*, F32x16 a, F32x16 b, F32x16 c) {
  return fma(a, b, c);
}

// scores[r][lane] = q[r] . K[lane] for R rows and the sixteen keys of a group. scores has rows of kSpanStride.
template <int R, class T>
MORTISE_INLINE void score_rows(const float* q, std::size_t depth, const T* group, float* scores) {
  F32x16 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = zero();
  for (std::size_t begin = 0; begin < depth; begin += kTileDepth) {
    const std::size_t end = begin + kTileDepth < depth ? begin + kTileDepth : depth;
    F32x16 a[R], b[R];
    for (int r = 0; r < R; ++r) a[r] = b[r] = zero();
    for (std::size_t d = begin; d < end; d += 2) {
      const Pair k = load_key_pair(group, d / 2);
      for (int r = 0; r < R; ++r) {
        const float* qr = q + static_cast<std::size_t>(r) * depth + d;
        a[r] = chain(group, broadcast(qr[0]), k.even, a[r]);
        b[r] = chain(group, broadcast(qr[1]), k.odd, b[r]);
      }
    }
    for (int r = 0; r < R; ++r) acc[r] = acc[r] + (a[r] + b[r]);
  }
  for (int r = 0; r < R; ++r) store(scores + static_cast<std::size_t>(r) * kSpanStride, acc[r]);
}

// scores[m][lane] for all rows of a unit: R rows at a time, then the rest with fewer.
template <int R, class T>
void score_group(const float* q, std::size_t num_rows, std::size_t depth, const T* group, float* scores) {
  std::size_t m = 0;
  for (; m + R <= num_rows; m += R) score_rows<R>(q + m * depth, depth, group, scores + m * kSpanStride);
  if constexpr (R > 1) {
    if (m < num_rows) score_group<R / 2>(q + m * depth, num_rows - m, depth, group, scores + m * kSpanStride);
  }
}

// o[r][16 c ..] = sum over tiles [first, end) of P V for R rows and C column chunks. p has rows of kSpanStride, o rows
// of `width`. The last + 0 makes a zero positive: its sign would depend on how many tiles with P = 0 were added.
// `ahead`, unless null, fetches the next span's keys meanwhile.
template <int R, int C, class T>
MORTISE_INLINE void value_block(const float* p, const ValueTiles<T>& tiles, std::size_t first, std::size_t end,
                                std::size_t column, std::size_t width, float* o, const SpanReader<T>* ahead) {
  F32x16 acc[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) acc[r][c] = zero();
  }
  for (std::size_t tile = first; tile < end; ++tile) {
    if (ahead != nullptr) ahead->fetch_next_keys(tile);
    F32x16 a[R][C], b[R][C];
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) a[r][c] = b[r][c] = zero();
    }
    for (std::size_t half = 0; half < 2; ++half) {
      const T* group = tiles.half[tile][half];
      for (std::size_t pair = 0; pair < kKeyGroup / 2; ++pair) {
        const float* weights = p + tile * kTileDepth + half * kKeyGroup + 2 * pair;
        for (int c = 0; c < C; ++c) {
          const Pair v = load_value_pair(group, pair, column + static_cast<std::size_t>(c) * kLanes, width);
          for (int r = 0; r < R; ++r) {
            const float* w = weights + static_cast<std::size_t>(r) * kSpanStride;
            a[r][c] = chain(group, broadcast(w[0]), v.even, a[r][c]);
            b[r][c] = chain(group, broadcast(w[1]), v.odd, b[r][c]);
          }
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; ++c) acc[r][c] = acc[r][c] + (a[r][c] + b[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) {
      float* to = o + static_cast<std::size_t>(r) * width + column + static_cast<std::size_t>(c) * kLanes;
      store(to, acc[r][c] + zero());
    }
  }
}

// All columns for R rows, C chunks at a time, then the rest with fewer.
template <int R, int C, class T>
MORTISE_INLINE void value_rows(const float* p, const ValueTiles<T>& tiles, std::size_t first, std::size_t end,
                               std::size_t column, std::size_t width, float* o, const SpanReader<T>* ahead) {
  for (; column + C * kLanes <= width; column += C * kLanes) {
    value_block<R, C>(p, tiles, first, end, column, width, o, column == 0 ? ahead : nullptr);
  }
  if constexpr (C > 1) {
    if (column < width) value_rows<R, C / 2>(p, tiles, first, end, column, width, o, column == 0 ? ahead : nullptr);
  }
}

// o[m] = P[m] V over the tiles [first, end), for all rows of a unit: R rows at a time, then the rest with fewer.
template <int R, class T>
void value_product(const float* p, std::size_t num_rows, const ValueTiles<T>& tiles, std::size_t first, std::size_t end,
                   std::size_t width, float* o, const SpanReader<T>* ahead) {
  std::size_t m = 0;
  for (; m + R <= num_rows; m += R) {
    value_rows<R, kBlockRows / R>(p + m * kSpanStride, tiles, first, end, 0, width, o + m * width,
                                  m == 0 ? ahead : nullptr);
  }
  if constexpr (R > 1) {
    if (m < num_rows) {
      value_product<R / 2>(p + m * kSpanStride, num_rows - m, tiles, first, end, width, o + m * width,
                           m == 0 ? ahead : nullptr);
    }
  }
}

template <class T>
struct VecProducts {
  // The queries as f32, row m = token * num_heads + head, padded with zeros to key_depth.
  static void begin(const SpanUnit& unit, SpanScratch& scratch) {
    const std::size_t depth = index(unit.layout->key_depth), head_dim = index(unit.layout->head_dim);
    float* q = scratch.q;
    for (std::int32_t r = 0; r < unit.num_rows; ++r) {
      for (std::int32_t h = 0; h < unit.num_heads; ++h, q += depth) {
        const T* from = static_cast<const T*>(unit.q) + r * unit.q_row_stride + h * unit.q_head_stride;
        for (std::size_t d = 0; d < depth; d += kLanes) {
          const std::size_t here = d < head_dim ? lanes_left(head_dim - d) : 0;
          store_tail(q + d, read_tail(from + d, here), lanes_left(depth - d));
        }
      }
    }
  }
  static void end() {}

  static MORTISE_INLINE void put(SpanScratch& scratch, std::size_t m, std::size_t lane, F32x16 p) {
    store(scratch.scores + m * kSpanStride + lane, p);
  }

  static void scores(const SpanUnit& unit, const SpanReader<T>& reader, KeyRange keys, SpanScratch& scratch) {
    const std::size_t num_rows = index(unit.num_rows * unit.num_heads), depth = index(unit.layout->key_depth);
    for (std::int32_t group = keys.begin / kKeyGroup; group * kKeyGroup < keys.end; ++group) {
      if (num_rows <= kPrefetchRows) reader.fetch_values(group);
      score_group<kBlockRows>(scratch.q, num_rows, depth, reader.keys(group), scratch.scores + index(group) * kLanes);
    }
  }

  static void values(const SpanUnit& unit, const SpanReader<T>& reader, const ValueTiles<T>& tiles, std::size_t first,
                     std::size_t end, SpanScratch& scratch, float* o) {
    const std::size_t num_rows = index(unit.num_rows * unit.num_heads);
    value_product<kBlockRows>(scratch.scores, num_rows, tiles, first, end, index(unit.layout->value_width), o,
                              num_rows <= kPrefetchRows ? &reader : nullptr);
  }
};

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
