// linear of class cpu-bf16/1 on AMX. A tile of weights is 1 KiB of the packed order as it lies.
// Up to 16 rows: one tile of x against four panels. More: 32 rows x 2 panels, four accumulators for four loads; columns
// in chunks whose weights stay in the second-level cache, K in blocks whose x tiles stay in the first.
#include "kernels/cpu/io.hpp"
#include "kernels/cpu/linear.hpp"
#if defined(MORTISE_EMULATED_TILES)  // the tests check the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTile = 32;  // depth of a tile of K
constexpr std::size_t kTileRows = 16;
constexpr std::size_t kTileBytes = 1024;
constexpr std::size_t kRowBytes = 64;         // of a tile
constexpr std::size_t kBlockTiles = 16;       // 32 KiB of x: 32 rows of a block of K
constexpr std::size_t kChunkBytes = 1 << 20;  // weights of a chunk of columns
constexpr std::size_t kMaxChunkPanels = 64, kMinChunkPanels = 8;
constexpr std::size_t kFewPanels = 4;
constexpr std::size_t kAccumulator = kTileRows * kLanes;  // floats

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}
constexpr std::size_t tiles_of(std::size_t k) {
  return (k + kTile - 1) / kTile;
}

// Where the tiles of 16 rows of x lie: as they came, or prepared.
struct TilesOfX {
  const char* first;
  std::size_t row_stride, tile_stride;  // bytes
  const char* last;                     // the tile that fills up K, rows kRowBytes apart; null if K is whole tiles
};

template <class Y>
void write_rows(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t n, const float* acc) {
  const std::size_t count = lanes_left(args.n - n);
  const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + n, count) : zero();
  for (std::size_t i = 0; i < rows; ++i) {
    F32x16 y = load(acc + i * kLanes);
    if (args.bias != nullptr) y = y + bias;
    write_tail(static_cast<Y*>(args.y) + (m + i) * args.y_stride + n, y, count);
  }
}

// Tiles 0-3 accumulate, 4 is x, 5-7 take weights in turn.
void configure_few(std::size_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = static_cast<std::uint8_t>(t < 5 ? rows : kTileRows);
  }
  tiles_configure(config);
}

template <int panels>
MORTISE_INLINE void multiply_few_tile(const char* x, std::size_t row_stride, const char* w, std::size_t panel_bytes) {
  tile_load<4>(x, row_stride);
  tile_load<5>(w, kRowBytes);
  if constexpr (panels > 1) tile_load<6>(w + panel_bytes, kRowBytes);
  if constexpr (panels > 2) tile_load<7>(w + 2 * panel_bytes, kRowBytes);
  tile_multiply_bf16<0, 4, 5>();
  if constexpr (panels > 3) tile_load<5>(w + 3 * panel_bytes, kRowBytes);
  if constexpr (panels > 1) tile_multiply_bf16<1, 4, 6>();
  if constexpr (panels > 2) tile_multiply_bf16<2, 4, 7>();
  if constexpr (panels > 3) tile_multiply_bf16<3, 4, 5>();
}

template <int panels, class Y>
void multiply_few_panels(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n) {
  alignas(64) float acc[panels][kAccumulator];
  const std::size_t tiles = tiles_of(args.k), panel_bytes = tiles * kTileBytes;
  const std::size_t whole = x.last == nullptr ? tiles : tiles - 1;
  const char* w = static_cast<const char*>(args.w) + n / kLanes * panel_bytes;
  tile_zero<0>();
  if constexpr (panels > 1) tile_zero<1>();
  if constexpr (panels > 2) tile_zero<2>();
  if constexpr (panels > 3) tile_zero<3>();
  for (std::size_t t = 0; t < whole; ++t) {
    multiply_few_tile<panels>(x.first + t * x.tile_stride, x.row_stride, w + t * kTileBytes, panel_bytes);
  }
  if (whole < tiles) multiply_few_tile<panels>(x.last, kRowBytes, w + whole * kTileBytes, panel_bytes);
  tile_store<0>(acc[0], kRowBytes);
  if constexpr (panels > 1) tile_store<1>(acc[1], kRowBytes);
  if constexpr (panels > 2) tile_store<2>(acc[2], kRowBytes);
  if constexpr (panels > 3) tile_store<3>(acc[3], kRowBytes);
  for (std::size_t j = 0; j < panels; ++j) write_rows<Y>(args, m, rows, n + j * kLanes, acc[j]);
}

// Up to 16 rows, the columns [n0, n1).
template <class Y>
void multiply_few(const LinearArgs& args, const TilesOfX& x, std::size_t m, std::size_t rows, std::size_t n0,
                  std::size_t n1) {
  configure_few(rows);
  std::size_t n = n0;
  for (; n + (kFewPanels - 1) * kLanes < n1; n += kFewPanels * kLanes) {
    multiply_few_panels<kFewPanels, Y>(args, x, m, rows, n);
  }
  for (; n < n1; n += kLanes) multiply_few_panels<1, Y>(args, x, m, rows, n);
}

// Tiles 0-3 accumulate (row block, panel) = (0,0) (0,1) (1,0) (1,1), 4 and 5 are x, 6 and 7 weights.
void configure_many(std::size_t rows) {
  TileConfig config;
  const std::uint8_t low = kTileRows, high = static_cast<std::uint8_t>(rows - kTileRows);
  const std::uint8_t tile_rows[8] = {low, low, high, high, low, high, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = tile_rows[t];
  }
  tiles_configure(config);
}

// acc [2 panels][2 row blocks][16][16] += the tiles [0, tiles) of K. With one panel the second is not touched.
template <int panels>
void multiply_many(const char* x_low, const char* x_high, const char* w, std::size_t panel_bytes, std::size_t tiles,
                   bool first, float* acc) {
  if (first) {
    tile_zero<0>(), tile_zero<2>();
    if constexpr (panels > 1) tile_zero<1>(), tile_zero<3>();
  } else {
    tile_load<0>(acc, kRowBytes), tile_load<2>(acc + kAccumulator, kRowBytes);
    if constexpr (panels > 1) {
      tile_load<1>(acc + 2 * kAccumulator, kRowBytes), tile_load<3>(acc + 3 * kAccumulator, kRowBytes);
    }
  }
  for (std::size_t t = 0; t < tiles; ++t) {
    tile_load<6>(w + t * kTileBytes, kRowBytes);
    tile_load<4>(x_low + t * kTileBytes, kRowBytes);
    tile_multiply_bf16<0, 4, 6>();
    tile_load<5>(x_high + t * kTileBytes, kRowBytes);
    tile_multiply_bf16<2, 5, 6>();
    if constexpr (panels > 1) {
      tile_load<7>(w + panel_bytes + t * kTileBytes, kRowBytes);
      tile_multiply_bf16<1, 4, 7>();
      tile_multiply_bf16<3, 5, 7>();
    }
  }
  tile_store<0>(acc, kRowBytes), tile_store<2>(acc + kAccumulator, kRowBytes);
  if constexpr (panels > 1) {
    tile_store<1>(acc + 2 * kAccumulator, kRowBytes), tile_store<3>(acc + 3 * kAccumulator, kRowBytes);
  }
}

// 17 to 32 rows of prepared x, the columns [n0, n1) of one chunk.
template <class Y>
void multiply_chunk(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t n0, std::size_t n1) {
  alignas(64) float acc[kMaxChunkPanels * 2 * kAccumulator];
  const std::size_t tiles = tiles_of(args.k), panel_bytes = tiles * kTileBytes;
  const char* x = static_cast<const char*>(args.scratch) + m / kTileRows * panel_bytes;
  const char* w = static_cast<const char*>(args.w) + n0 / kLanes * panel_bytes;
  const std::size_t panels = (n1 - n0 + kLanes - 1) / kLanes;
  configure_many(rows);
  for (std::size_t t = 0; t == 0 || t < tiles; t += kBlockTiles) {
    const std::size_t block = minimum(kBlockTiles, tiles - t);
    const char* x_block = x + t * kTileBytes;
    for (std::size_t j = 0; j < panels; j += 2) {
      const char* w_block = w + j * panel_bytes + t * kTileBytes;
      float* sums = acc + j * 2 * kAccumulator;
      if (j + 1 < panels) {
        multiply_many<2>(x_block, x_block + panel_bytes, w_block, panel_bytes, block, t == 0, sums);
      } else {
        multiply_many<1>(x_block, x_block + panel_bytes, w_block, panel_bytes, block, t == 0, sums);
      }
    }
  }
  for (std::size_t j = 0; j < panels; ++j) write_rows<Y>(args, m, rows, n0 + j * kLanes, acc + j * 2 * kAccumulator);
}

template <class Y>
void run_prepared(const LinearArgs& args, const LinearRange& range) {
  const std::size_t panel_bytes = tiles_of(args.k) * kTileBytes;
  std::size_t panels = panel_bytes == 0 ? kMaxChunkPanels : minimum(kChunkBytes / panel_bytes, kMaxChunkPanels) & ~1u;
  if (panels < kMinChunkPanels) panels = kMinChunkPanels;
  for (std::size_t n = range.n0; n < range.n1; n += panels * kLanes) {
    const std::size_t n_end = minimum(n + panels * kLanes, range.n1);
    for (std::size_t m = range.m0; m < range.m1; m += 2 * kTileRows) {
      const std::size_t rows = minimum(2 * kTileRows, range.m1 - m);
      if (rows > kTileRows) {
        multiply_chunk<Y>(args, m, rows, n, n_end);
      } else {
        const char* x = static_cast<const char*>(args.scratch) + m / kTileRows * panel_bytes;
        multiply_few<Y>(args, {x, kRowBytes, kTileBytes, nullptr}, m, rows, n, n_end);
      }
    }
  }
}

// The tile of x that fills up K: `rows` rows, zeros after K.
void copy_last_tile(const LinearArgs& args, std::size_t m, std::size_t rows, Bf16* tile) {
  const std::size_t k = args.k / kTile * kTile;
  for (std::size_t i = 0; i < rows; ++i) {
    const Bf16* x = static_cast<const Bf16*>(args.x) + (m + i) * args.x_stride + k;
    for (std::size_t j = 0; j < kTile; ++j) tile[i * kTile + j] = k + j < args.k ? x[j] : Bf16{0};
  }
}

template <class Y>
void run(const LinearArgs& args, const LinearRange& range) {
  if (args.m > kTileRows) {
    run_prepared<Y>(args, range);
  } else if (range.m0 < range.m1) {
    alignas(64) Bf16 last[kTileRows * kTile];
    const std::size_t rows = range.m1 - range.m0;
    const bool whole = args.k % kTile == 0;
    if (!whole) copy_last_tile(args, range.m0, rows, last);
    const TilesOfX x = {reinterpret_cast<const char*>(static_cast<const Bf16*>(args.x) + range.m0 * args.x_stride),
                        args.x_stride * sizeof(Bf16), kTile * sizeof(Bf16),
                        whole ? nullptr : reinterpret_cast<const char*>(last)};
    multiply_few<Y>(args, x, range.m0, rows, range.n0, range.n1);
  }
  tiles_release();
}

std::size_t scratch_bytes(std::size_t m, std::size_t k) {
  return m <= kTileRows ? 0 : (m + kTileRows - 1) / kTileRows * tiles_of(k) * kTileBytes;
}

// x in tiles, [ceil(M / 16)][ceil(K / 32)][16 rows][32 k]: rows of x itself lie in the same few sets of the cache.
void prepare(const LinearArgs& args, std::size_t m0, std::size_t m1) {
  if (args.m <= kTileRows) return;
  const std::size_t tiles = tiles_of(args.k), whole = args.k / kTile;
  for (std::size_t m = m0; m < m1; ++m) {
    const Bf16* x = static_cast<const Bf16*>(args.x) + m * args.x_stride;
    Bf16* out = static_cast<Bf16*>(args.scratch) + (m / kTileRows * tiles * kTileRows + m % kTileRows) * kTile;
    for (std::size_t t = 0; t < whole; ++t) std::memcpy(out + t * kTileRows * kTile, x + t * kTile, kRowBytes);
    if (whole < tiles) copy_last_tile(args, m, 1, out + whole * kTileRows * kTile);
  }
}

}  // namespace

extern const LinearBf16Kernels kLinearBf16Kernels;
constinit const LinearBf16Kernels kLinearBf16Kernels = {
    .to_bf16 = {scratch_bytes, prepare, run<Bf16>},
    .to_f32 = {scratch_bytes, prepare, run<float>},
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
