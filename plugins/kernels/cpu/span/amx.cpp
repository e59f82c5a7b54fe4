// The two products of a span on AMX, for class cpu-bf16/1. In a bf16 cache a key group is loaded as a B tile in place.
// So is a tile of V, if its 32 tokens are contiguous. With blocks of 16 tokens V is copied to one tile, because two
// tiles of half the depth would give other bits. In an int8 or E4M3 cache, key groups and tiles of V are first
// converted to bf16 in scratch.
#include "kernels/cpu/span/dot.hpp"
#include "kernels/cpu/span/tile_softmax.hpp"
#if defined(MORTISE_EMULATED_TILES)  // tests run the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/amx/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kRowBytes = 64;   // bytes in a row of a tile
constexpr std::size_t kRowsAtOnce = 4;  // rows of softmax between two steps of the tiles

// Up to 16 rows: tiles 0-3 accumulate four chunks of columns, tile 4 holds rows, tiles 5-7 hold columns in turn.
// More: tiles 0-3 accumulate (row block, chunk) = (0,0) (0,1) (1,0) (1,1), tiles 4 and 5 hold rows, tiles 6 and 7
// columns.
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

// A product out [rows, 16 chunks] = a [rows, 32 depth] b, or += unless it is the first of a sum. Strides are in bytes;
// depth tile t is at a + t * a_step.
struct TileProduct {
  const char* a;
  std::size_t a_stride, a_step;
  float* out;
  std::size_t out_stride;
  std::size_t depth;  // in depth tiles
  bool first;
};

template <int t>
MORTISE_INLINE void begin_sum(const TileProduct& p, const float* out) {
  if (p.first) {
    tile_zero<t>();
  } else {
    tile_load<t>(out, p.out_stride);
  }
}

// B(chunk, t) returns the address of depth tile t for a chunk of sixteen columns. Its rows are b_stride apart.
template <int chunks, class B>
MORTISE_INLINE void multiply_few(const TileProduct& p, std::size_t chunk, std::size_t b_stride, const B& b) {
  float* const out = p.out + chunk * kLanes;
  begin_sum<0>(p, out);
  if constexpr (chunks > 1) begin_sum<1>(p, out + kLanes);
  if constexpr (chunks > 2) begin_sum<2>(p, out + 2 * kLanes);
  if constexpr (chunks > 3) begin_sum<3>(p, out + 3 * kLanes);
  for (std::size_t t = 0; t < p.depth; ++t) {
    tile_load<4>(p.a + t * p.a_step, p.a_stride);
    tile_load<5>(b(chunk, t), b_stride);
    if constexpr (chunks > 1) tile_load<6>(b(chunk + 1, t), b_stride);
    if constexpr (chunks > 2) tile_load<7>(b(chunk + 2, t), b_stride);
    tile_multiply_bf16<0, 4, 5>();
    if constexpr (chunks > 3) tile_load<5>(b(chunk + 3, t), b_stride);
    if constexpr (chunks > 1) tile_multiply_bf16<1, 4, 6>();
    if constexpr (chunks > 2) tile_multiply_bf16<2, 4, 7>();
    if constexpr (chunks > 3) tile_multiply_bf16<3, 4, 5>();
  }
  tile_store<0>(out, p.out_stride);
  if constexpr (chunks > 1) tile_store<1>(out + kLanes, p.out_stride);
  if constexpr (chunks > 2) tile_store<2>(out + 2 * kLanes, p.out_stride);
  if constexpr (chunks > 3) tile_store<3>(out + 3 * kLanes, p.out_stride);
}

template <int chunks, class B>
MORTISE_INLINE void multiply_many(const TileProduct& p, std::size_t chunk, std::size_t b_stride, const B& b) {
  const char* a_high = p.a + kTileRows * p.a_stride;
  float* const low = p.out + chunk * kLanes;
  float* const high = low + kTileRows * p.out_stride / sizeof(float);
  begin_sum<0>(p, low), begin_sum<2>(p, high);
  if constexpr (chunks > 1) begin_sum<1>(p, low + kLanes), begin_sum<3>(p, high + kLanes);
  for (std::size_t t = 0; t < p.depth; ++t) {
    tile_load<6>(b(chunk, t), b_stride);
    tile_load<4>(p.a + t * p.a_step, p.a_stride);
    tile_multiply_bf16<0, 4, 6>();
    tile_load<5>(a_high + t * p.a_step, p.a_stride);
    tile_multiply_bf16<2, 5, 6>();
    if constexpr (chunks > 1) {
      tile_load<7>(b(chunk + 1, t), b_stride);
      tile_multiply_bf16<1, 4, 7>();
      tile_multiply_bf16<3, 5, 7>();
    }
  }
  tile_store<0>(low, p.out_stride), tile_store<2>(high, p.out_stride);
  if constexpr (chunks > 1) tile_store<1>(low + kLanes, p.out_stride), tile_store<3>(high + kLanes, p.out_stride);
}

// A product is divided into steps; a step has as many chunks as the tiles can accumulate.
constexpr std::size_t chunks_of_step(std::size_t num_rows) {
  return num_rows <= kTileRows ? 4 : 2;
}

template <class B>
MORTISE_INLINE void multiply_step(const TileProduct& p, std::size_t num_rows, std::size_t step, std::size_t chunks,
                                  std::size_t b_stride, const B& b) {
  std::size_t chunk = step * chunks_of_step(num_rows);
  const std::size_t left = chunks - chunk;
  if (num_rows > kTileRows) {
    left >= 2 ? multiply_many<2>(p, chunk, b_stride, b) : multiply_many<1>(p, chunk, b_stride, b);
  } else if (left >= 4) {
    multiply_few<4>(p, chunk, b_stride, b);
  } else {
    for (; chunk < chunks; ++chunk) multiply_few<1>(p, chunk, b_stride, b);
  }
}

// One row of a tile from int8 or E4M3: sixteen elements each of two neighbours along the depth. Integers up to 128 and
// E4M3 are exact in bf16, so the lower half of their f32 is zero.
template <class E>
MORTISE_INLINE void put_pairs(const E* even, const E* odd, Bf16* row) {
  store(reinterpret_cast<std::int32_t*>(row), shift_right<16>(bits(read(even))) | bits(read(odd)));
}

// A key group as B tiles: in place, or converted in `room`.
const char* key_tiles(const Bf16* group, std::size_t, Bf16*) {
  return reinterpret_cast<const char*>(group);
}
template <class E>
const char* key_tiles(const E* group, std::size_t depth, Bf16* room) {
  for (std::size_t at = 0; at < depth * kLanes; at += 2 * kLanes) put_pairs(group + at, group + at + kLanes, room + at);
  return reinterpret_cast<const char*>(room);
}

// The two key groups of a depth tile of V as one B tile: in place if they are contiguous, otherwise in `room`.
const char* value_tile(const Bf16* const (&half)[2], std::size_t width, Bf16* room) {
  const std::size_t size = kKeyGroup * width;
  if (half[1] == half[0] + size) return reinterpret_cast<const char*>(half[0]);
  std::memcpy(room, half[0], size * sizeof(Bf16));
  std::memcpy(room + size, half[1], size * sizeof(Bf16));
  return reinterpret_cast<const char*>(room);
}
template <class E>
const char* value_tile(const E* const (&half)[2], std::size_t width, Bf16* room) {
  Bf16* to = room;
  for (const E* group : half) {
    for (const E* row = group; row < group + kKeyGroup * width; row += 2 * width, to += 2 * width) {
      for (std::size_t d = 0; d < width; d += kLanes) put_pairs(row + d, row + width + d, to + 2 * d);
    }
  }
  return reinterpret_cast<const char*>(room);
}

template <class E>
struct TileProducts {
  using Stored = E;
  struct Tiles {
    std::size_t rows = 0;                    // the number of rows that the tiles are configured for
    const char* keys[kSpan / kKeyGroup];     // B tiles of each key group, contiguous
    const char* values[kSpan / kTileDepth];  // a row of B tiles for each 32 keys
  };

  // Copies the queries; row m = token * num_heads + head, padded with zeros to key_depth.
  static void begin(const SpanUnit& unit, SpanScratch& scratch) {
    const std::size_t depth = index(unit.layout->key_depth), head_dim = index(unit.layout->head_dim);
    Bf16* q = reinterpret_cast<Bf16*>(scratch.q);
    for (std::int32_t r = 0; r < unit.num_rows; ++r) {
      const Bf16* from = static_cast<const Bf16*>(unit.q) + place_of(unit, r) * unit.q_row_stride;
      for (std::int32_t h = 0; h < unit.num_heads; ++h, q += depth, from += unit.q_head_stride) {
        std::size_t d = 0;
        for (; d + kTileDepth <= head_dim; d += kTileDepth) std::memcpy(q + d, from + d, kRowBytes);
        if (d == depth) continue;
        std::memset(q + d, 0, kRowBytes);
        std::memcpy(q + d, from + d, (head_dim - d) * sizeof(Bf16));
      }
    }
  }
  static void begin_strip(std::size_t rows, Tiles& tiles) {
    if (tiles.rows != rows) configure(rows);
    tiles.rows = rows;
  }
  static void end() { tiles_release(); }

  static void prepare_keys(const SpanReader<E>& reader, KeyRange keys, SpanScratch& scratch, Tiles& tiles) {
    const std::size_t depth = index(reader.cache().layout.key_depth);
    const std::size_t first = index(keys.begin) / kLanes, end = (index(keys.end) + kLanes - 1) / kLanes;
    for (std::size_t group = first; group < end; ++group) {
      Bf16* room = scratch.keys + group * kKeyGroup * depth;
      tiles.keys[group] = key_tiles(reader.keys(static_cast<std::int32_t>(group)), depth, room);
    }
    // A block of 32 keys of which only half is seen needs a second key group. Any will do: its keys are masked.
    if (first % 2 != 0) tiles.keys[first - 1] = tiles.keys[first];
    if (end % 2 != 0) tiles.keys[end] = tiles.keys[end - 1];
  }

  static void prepare_values(const SpanReader<E>& reader, const ValueTiles<E>& halves, std::size_t first,
                             std::size_t end, SpanScratch& scratch, Tiles& tiles) {
    const std::size_t width = index(reader.cache().layout.value_width);
    for (std::size_t tile = first; tile < end; ++tile) {
      tiles.values[tile] = value_tile(halves.half[tile], width, scratch.values + tile * kTileDepth * width);
    }
  }

  // Computes scores and their maxima.
  static void score(const StripSpan& p, const SpanReader<E>& reader, const Tiles& tiles, SpanScratch& scratch) {
    const std::size_t depth = index(p.strip.unit.layout->key_depth), rows = p.strip.rows();
    const char* q = reinterpret_cast<const char*>(reinterpret_cast<const Bf16*>(scratch.q) + p.strip.first * depth);
    const std::int32_t end_group = (p.keys.end + kKeyGroup - 1) / kKeyGroup;
    for (std::int32_t group = p.keys.begin / kKeyGroup; group < end_group; ++group) reader.fetch_values(group);
    begin_softmax(p, scratch);
    const std::size_t first = index(p.range.begin) / kTileDepth, end = index(p.range.end) / kTileDepth;
    for (std::size_t block = first; block < end; ++block) {
      const TileProduct product = {
          q, depth * sizeof(Bf16), kRowBytes, scores_of(scratch, block), 2 * kRowBytes, depth / kTileDepth, true};
      const auto key_tile = [&](std::size_t chunk, std::size_t t) {
        return tiles.keys[2 * block + chunk] + t * kTileDepth * kLanes * sizeof(Bf16);
      };
      rows <= kTileRows ? multiply_few<2>(product, 0, kRowBytes, key_tile)
                        : multiply_many<2>(product, 0, kRowBytes, key_tile);
      if (block > first) join_maxima<E>(p, block - 1, scratch);
    }
    join_maxima<E>(p, end - 1, scratch);
    reduce_maxima(p, scratch);
  }

  // Computes probabilities and P V. While one block is exponentiated, the block before is multiplied.
  static void set_probabilities(const StripSpan& p, const SpanReader<E>& reader, const Tiles& tiles,
                                SpanScratch& scratch) {
    const std::size_t first = index(p.range.begin) / kTileDepth, end = index(p.range.end) / kTileDepth;
    for (std::size_t block = first; block < end; ++block) {
      reader.fetch_next_keys(block - first, end - first);
      whole_block(p, block) ? set_block_probabilities<true>(p, block, block > first, tiles, scratch)
                            : set_block_probabilities<false>(p, block, block > first, tiles, scratch);
    }
    const std::size_t steps = steps_of(p);
    for (std::size_t step = 0; step < steps; ++step) multiply_values(p, end - 1, step, tiles, scratch);
    reduce_sums(p, scratch);
  }

 private:
  static std::size_t steps_of(const StripSpan& p) {
    const std::size_t at_once = chunks_of_step(p.strip.rows());
    return (index(p.strip.unit.layout->value_width) / kLanes + at_once - 1) / at_once;
  }

  template <bool whole>
  static void set_block_probabilities(const StripSpan& p, std::size_t block, bool multiply_last, const Tiles& tiles,
                                      SpanScratch& scratch) {
    const std::size_t rows = p.strip.rows(), steps = multiply_last ? steps_of(p) : 0;
    std::size_t step = 0;
    for (std::size_t m = 0; m < rows; m += kRowsAtOnce) {
      const std::size_t next = m + kRowsAtOnce;
      exponentiate_rows<E, whole>(p, block, m, next < rows ? next : rows, scratch);
      // Spread over the rows: issued at once, the tiles would wait for probabilities that are not in the cache yet.
      for (; step < steps && (step + 1) * rows <= steps * next; ++step)
        multiply_values(p, block - 1, step, tiles, scratch);
    }
  }

  // One step of a block's product with V.
  static MORTISE_INLINE void multiply_values(const StripSpan& p, std::size_t block, std::size_t step,
                                             const Tiles& tiles, SpanScratch& scratch) {
    const std::size_t width = index(p.strip.unit.layout->value_width);
    const TileProduct product = {reinterpret_cast<const char*>(probabilities_of(scratch, block)),
                                 kRowBytes,
                                 0,
                                 p.partial.o,
                                 width * sizeof(float),
                                 1,
                                 block == index(p.range.begin) / kTileDepth};
    multiply_step(product, p.strip.rows(), step, width / kLanes, 2 * width * sizeof(Bf16),
                  [&](std::size_t chunk, std::size_t) { return tiles.values[block] + chunk * kRowBytes; });
  }
};

// With fewer rows memory is the limit. The vector form needs no copies of V and reads faster.
constexpr std::int32_t kMinRows = 3;

bool on_tiles(const SpanUnit& unit) {
  return unit.num_rows * unit.num_heads >= kMinRows && unit.scale > 0.0f;  // scale > 0: join_maxima relies on it
}

template <class E>
void attend_with(const SpanUnit& unit, SpanScratch& scratch) {
  on_tiles(unit) ? attend<Bf16, TileProducts<E>>(unit, scratch) : attend<Bf16, VecProducts<Bf16, E>>(unit, scratch);
}

template <class E>
void fold_with(const SpanUnit& unit, SpanScratch& scratch) {
  on_tiles(unit) ? fold<Bf16, TileProducts<E>>(unit, scratch) : fold<Bf16, VecProducts<Bf16, E>>(unit, scratch);
}

template <class E>
void write_partials_with(const SpanUnit& unit, SpanScratch& scratch) {
  on_tiles(unit) ? write_partials<Bf16, TileProducts<E>>(unit, scratch)
                 : write_partials<Bf16, VecProducts<Bf16, E>>(unit, scratch);
}

}  // namespace

extern const SpanKernels kSpanBf16Kernels, kSpanBf16Int8Kernels, kSpanBf16Fp8Kernels;
constinit const SpanKernels kSpanBf16Kernels = {attend_with<Bf16>, fold_with<Bf16>, write_partials_with<Bf16>};
constinit const SpanKernels kSpanBf16Int8Kernels = {attend_with<std::int8_t>, fold_with<std::int8_t>,
                                                    write_partials_with<std::int8_t>};
constinit const SpanKernels kSpanBf16Fp8Kernels = {attend_with<Fp8>, fold_with<Fp8>, write_partials_with<Fp8>};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
