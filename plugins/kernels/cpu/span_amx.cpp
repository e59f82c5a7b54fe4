// The two products of a span of class bf16 on AMX. A group of K is a tile of B as it lies in the cache, and so is a
// tile of V where its 32 tokens lie together; blocks of 16 tokens are copied, because two tiles of half the depth would
// give other bits than one. Groups and tiles of int8 become bf16 in scratch.
#include "kernels/cpu/span_dot.hpp"
#if defined(MORTISE_EMULATED_TILES)  // the tests check the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kRowBytes = 64;  // of a tile
constexpr std::size_t kScoreBytes = kSpanStride * sizeof(float);
constexpr std::size_t kProbabilityBytes = kSpanStride * sizeof(Bf16);

// Up to 16 rows: tiles 0-3 accumulate four column chunks, 4 takes rows, 5-7 columns in turn.
// More: tiles 0-3 accumulate (row block, chunk) = (0,0) (0,1) (1,0) (1,1), 4 and 5 take rows, 6 and 7 columns.
void configure(std::size_t num_rows) {
  TileConfig config;
  const bool few = num_rows <= kTileRows;
  const std::uint8_t low = static_cast<std::uint8_t>(few ? num_rows : kTileRows);
  const std::uint8_t high = static_cast<std::uint8_t>(few ? num_rows : num_rows - kTileRows);
  const std::uint8_t whole = kTileRows;
  const std::uint8_t rows[8] = {low, low, high, high, low, few ? whole : high, whole, whole};
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = rows[t];
  }
  tiles_configure(config);
}

// A product out[rows, 16 chunks] = a [rows, 32 depth] b: strides in bytes. Tile t of the depth is at a + 64 t.
struct TileProduct {
  const char* a;
  std::size_t a_stride;
  float* out;
  std::size_t out_stride;
  std::size_t depth;  // in tiles
};

// B(chunk, t) is where tile t of the depth of a chunk of sixteen columns lies; its rows are b_stride apart.
template <int chunks, class B>
MORTISE_INLINE void multiply_few(const TileProduct& p, std::size_t chunk, std::size_t b_stride, const B& b) {
  tile_zero<0>();
  if constexpr (chunks > 1) tile_zero<1>();
  if constexpr (chunks > 2) tile_zero<2>();
  if constexpr (chunks > 3) tile_zero<3>();
  for (std::size_t t = 0; t < p.depth; ++t) {
    tile_load<4>(p.a + t * kRowBytes, p.a_stride);
    tile_load<5>(b(chunk, t), b_stride);
    if constexpr (chunks > 1) tile_load<6>(b(chunk + 1, t), b_stride);
    if constexpr (chunks > 2) tile_load<7>(b(chunk + 2, t), b_stride);
    tile_multiply_bf16<0, 4, 5>();
    if constexpr (chunks > 3) tile_load<5>(b(chunk + 3, t), b_stride);
    if constexpr (chunks > 1) tile_multiply_bf16<1, 4, 6>();
    if constexpr (chunks > 2) tile_multiply_bf16<2, 4, 7>();
    if constexpr (chunks > 3) tile_multiply_bf16<3, 4, 5>();
  }
  float* out = p.out + chunk * kLanes;
  tile_store<0>(out, p.out_stride);
  if constexpr (chunks > 1) tile_store<1>(out + kLanes, p.out_stride);
  if constexpr (chunks > 2) tile_store<2>(out + 2 * kLanes, p.out_stride);
  if constexpr (chunks > 3) tile_store<3>(out + 3 * kLanes, p.out_stride);
}

template <int chunks, class B>
MORTISE_INLINE void multiply_many(const TileProduct& p, std::size_t chunk, std::size_t b_stride, const B& b) {
  const char* a_high = p.a + kTileRows * p.a_stride;
  tile_zero<0>(), tile_zero<2>();
  if constexpr (chunks > 1) tile_zero<1>(), tile_zero<3>();
  for (std::size_t t = 0; t < p.depth; ++t) {
    tile_load<6>(b(chunk, t), b_stride);
    tile_load<4>(p.a + t * kRowBytes, p.a_stride);
    tile_multiply_bf16<0, 4, 6>();
    tile_load<5>(a_high + t * kRowBytes, p.a_stride);
    tile_multiply_bf16<2, 5, 6>();
    if constexpr (chunks > 1) {
      tile_load<7>(b(chunk + 1, t), b_stride);
      tile_multiply_bf16<1, 4, 7>();
      tile_multiply_bf16<3, 5, 7>();
    }
  }
  float* low = p.out + chunk * kLanes;
  float* high = low + kTileRows * p.out_stride / sizeof(float);
  tile_store<0>(low, p.out_stride), tile_store<2>(high, p.out_stride);
  if constexpr (chunks > 1) tile_store<1>(low + kLanes, p.out_stride), tile_store<3>(high + kLanes, p.out_stride);
}

template <class B>
void multiply(const TileProduct& p, std::size_t num_rows, std::size_t first, std::size_t end, std::size_t b_stride,
              const B& b) {
  std::size_t chunk = first;
  if (num_rows <= kTileRows) {
    for (; chunk + 4 <= end; chunk += 4) multiply_few<4>(p, chunk, b_stride, b);
    for (; chunk < end; ++chunk) multiply_few<1>(p, chunk, b_stride, b);
  } else {
    for (; chunk + 2 <= end; chunk += 2) multiply_many<2>(p, chunk, b_stride, b);
    if (chunk < end) multiply_many<1>(p, chunk, b_stride, b);
  }
}

// One row of a tile from int8: sixteen elements of each of two neighbours along the depth. A whole number up to 128 is
// exact in bf16, so the lower half of its f32 is zero.
MORTISE_INLINE void put_pairs(const std::int8_t* even, const std::int8_t* odd, Bf16* row) {
  store(reinterpret_cast<std::int32_t*>(row), shift_right<16>(bits(read(even))) | bits(read(odd)));
}

// A group of K as tiles of B, in `room` unless it is as it lies.
const char* key_tiles(const Bf16* group, std::size_t, Bf16*) {
  return reinterpret_cast<const char*>(group);
}
const char* key_tiles(const std::int8_t* group, std::size_t depth, Bf16* room) {
  for (std::size_t at = 0; at < depth * kLanes; at += 2 * kLanes) put_pairs(group + at, group + at + kLanes, room + at);
  return reinterpret_cast<const char*>(room);
}

// The two groups of a tile of V as one tile of B, in `room` unless it lies so.
const char* value_tile(const Bf16* const (&half)[2], std::size_t width, Bf16* room) {
  const std::size_t size = kKeyGroup * width;
  if (half[1] == half[0] + size) return reinterpret_cast<const char*>(half[0]);
  std::memcpy(room, half[0], size * sizeof(Bf16));
  std::memcpy(room + size, half[1], size * sizeof(Bf16));
  return reinterpret_cast<const char*>(room);
}
const char* value_tile(const std::int8_t* const (&half)[2], std::size_t width, Bf16* room) {
  Bf16* to = room;
  for (const std::int8_t* group : half) {
    for (const std::int8_t* row = group; row < group + kKeyGroup * width; row += 2 * width, to += 2 * width) {
      for (std::size_t d = 0; d < width; d += kLanes) put_pairs(row + d, row + width + d, to + 2 * d);
    }
  }
  return reinterpret_cast<const char*>(room);
}

template <class E>
struct TileProducts {
  using Stored = E;
  struct Tiles {
    const char* keys[kSpan / kKeyGroup];     // of B: a group's, one after the other
    const char* values[kSpan / kTileDepth];  // of B: a row of chunks
  };

  // The queries as they are, row m = token * num_heads + head, padded with zeros to key_depth.
  static void begin(const SpanUnit& unit, SpanScratch& scratch) {
    const std::size_t depth = index(unit.layout->key_depth), head_dim = index(unit.layout->head_dim);
    Bf16* q = reinterpret_cast<Bf16*>(scratch.q);
    for (std::int32_t r = 0; r < unit.num_rows; ++r) {
      for (std::int32_t h = 0; h < unit.num_heads; ++h, q += depth) {
        std::memcpy(q, static_cast<const Bf16*>(unit.q) + r * unit.q_row_stride + h * unit.q_head_stride,
                    head_dim * sizeof(Bf16));
        std::memset(q + head_dim, 0, (depth - head_dim) * sizeof(Bf16));
      }
    }
  }
  static void begin_part(std::size_t rows) { configure(rows); }
  static void end() { tiles_release(); }

  static MORTISE_INLINE F32x16 put(SpanScratch& scratch, std::size_t m, std::size_t lane, F32x16 p) {
    Bf16* to = scratch.probabilities + m * kSpanStride + lane;
#if defined(__AVX512BF16__)  // which NaN it is does not matter to a product
    const __m256i h = (__m256i)_mm512_cvtneps_pbh(p.v);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), h);
    return widen_bf16(h);
#else
    store_bf16(to, p);
    return round_bf16(p);
#endif
  }

  static void prepare_keys(const SpanReader<E>& reader, KeyRange keys, SpanScratch& scratch, Tiles& tiles) {
    const std::size_t depth = index(reader.cache().layout.key_depth);
    const std::size_t end = (index(keys.end) + kLanes - 1) / kLanes;
    for (std::size_t group = index(keys.begin) / kLanes; group < end; ++group) {
      Bf16* room = scratch.keys + group * kKeyGroup * depth;
      tiles.keys[group] = key_tiles(reader.keys(static_cast<std::int32_t>(group)), depth, room);
    }
  }

  static void prepare_values(const SpanReader<E>& reader, const ValueTiles<E>& halves, std::size_t first,
                             std::size_t end, SpanScratch& scratch, Tiles& tiles) {
    const std::size_t width = index(reader.cache().layout.value_width);
    for (std::size_t tile = first; tile < end; ++tile) {
      tiles.values[tile] = value_tile(halves.half[tile], width, tile_copy<Bf16>(scratch, tile, width));
    }
  }

  static void scores(const Part& part, const SpanReader<E>& reader, KeyRange keys, const Tiles& tiles,
                     SpanScratch& scratch) {
    const std::size_t depth = index(part.unit.layout->key_depth);
    const char* q = reinterpret_cast<const char*>(reinterpret_cast<const Bf16*>(scratch.q) + part.first * depth);
    const TileProduct product = {q, depth * sizeof(Bf16), scratch.scores, kScoreBytes, depth / kTileDepth};
    const std::size_t first = index(keys.begin) / kLanes, end = (index(keys.end) + kLanes - 1) / kLanes;
    for (std::size_t group = first; group < end; ++group) reader.fetch_values(static_cast<std::int32_t>(group));
    multiply(product, part.rows(), first, end, kRowBytes, [&](std::size_t group, std::size_t t) {
      return tiles.keys[group] + t * kTileDepth * kLanes * sizeof(Bf16);
    });
  }

  static void values(const Part& part, const SpanReader<E>& reader, std::size_t first, std::size_t end,
                     const Tiles& tiles, SpanScratch& scratch, float* o) {
    const std::size_t width = index(part.unit.layout->value_width);
    for (std::size_t tile = first; tile < end; ++tile) reader.fetch_next_keys(tile - first, end - first);
    const TileProduct product = {reinterpret_cast<const char*>(scratch.probabilities) + first * kRowBytes,
                                 kProbabilityBytes, o, width * sizeof(float), end - first};
    multiply(product, part.rows(), 0, width / kLanes, 2 * width * sizeof(Bf16),
             [&](std::size_t chunk, std::size_t t) { return tiles.values[first + t] + chunk * kRowBytes; });
  }
};

// Below this many rows memory is the limit, and the vector form, which needs no copies of V, is the better reader.
constexpr std::int32_t kFewestRows = 3;

bool on_tiles(const SpanUnit& unit) {
  return unit.num_rows * unit.num_heads >= kFewestRows;
}

template <class E>
void attend_with(const SpanUnit& unit, SpanScratch& scratch) {
  on_tiles(unit) ? attend<Bf16, TileProducts<E>>(unit, scratch) : attend<Bf16, VecProducts<Bf16, E>>(unit, scratch);
}

template <class E>
void write_partials_with(const SpanUnit& unit, SpanScratch& scratch) {
  on_tiles(unit) ? write_partials<Bf16, TileProducts<E>>(unit, scratch)
                 : write_partials<Bf16, VecProducts<Bf16, E>>(unit, scratch);
}

}  // namespace

extern const SpanKernels kSpanBf16Kernels;
constinit const SpanKernels kSpanBf16Kernels = {
    .attend = attend_with<Bf16>,
    .partial = write_partials_with<Bf16>,
    .merge = merge<Bf16>,
};

extern const SpanKernels kSpanBf16Int8Kernels;
constinit const SpanKernels kSpanBf16Int8Kernels = {
    .attend = attend_with<std::int8_t>,
    .partial = write_partials_with<std::int8_t>,
    .merge = merge<Bf16>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
