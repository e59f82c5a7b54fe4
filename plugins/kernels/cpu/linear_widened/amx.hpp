// linear_widened/amx.hpp: products of bf16 rows with narrow weights (E4M3, MXFP4) on AMX: the weights of a step and of
// two panels are widened to bf16 tiles in the first-level cache, and multiplied by all rows of a chunk, 32 at a time.
// Without groups that have scales the sums go on from step to step, as accumulators that are stored and loaded again,
// which changes no bit. vector.hpp says what a weight is.
#pragma once

#include "kernels/cpu/linear/linear.hpp"
#include "kernels/cpu/vec/io.hpp"
#if defined(MORTISE_EMULATED_TILES)  // tests run the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/amx/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kDepthTile = 32;  // elements of K in a depth tile
constexpr std::size_t kTileRows = 16, kBlockRows = 2 * kTileRows;
constexpr std::size_t kTileElements = 512, kRowBytes = 64;
constexpr std::size_t kPair = 2 * kLanes;  // columns of y of two panels
constexpr std::size_t kChunkRows = 256;    // the sums of this many rows stay in a cache
constexpr std::size_t kStepTiles = 4;      // depth tiles that are widened at a time: a group of E4M3

constexpr std::size_t minimum(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

// Tiles 0-3 accumulate (row block, panel) = (0,0) (0,1) (1,0) (1,1). Tiles 4 and 5 hold x, tiles 6 and 7 weights.
void configure(std::size_t rows) {
  TileConfig config;
  const auto low = static_cast<std::uint8_t>(minimum(rows, kTileRows));
  const auto high = static_cast<std::uint8_t>(rows > kTileRows ? rows - kTileRows : 1);  // if none: not used
  const std::uint8_t tile_rows[8] = {low, low, high, high, low, high, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = kRowBytes;
    config.rows[t] = tile_rows[t];
  }
  tiles_configure(config);
}

// A step: up to kStepTiles tiles of two panels, widened.
struct Step {
  alignas(64) Bf16 w[2][kStepTiles][kTileElements];
  std::size_t tiles;

  template <class Weight>
  void widen(const Weight& weight, std::size_t column, int panels, std::size_t first, std::size_t count) {
    tiles = count;
    for (int j = 0; j < panels; ++j) {
      for (std::size_t i = 0; i < count; ++i) {
        Bf16* const out = w[j][i];
        weight.widen(column + static_cast<std::size_t>(j) * kLanes, first + i,
                     [&](std::size_t pair, F32x16 even, F32x16 odd) {
                       const I32x16 high = bits(odd) & broadcast_i32(static_cast<std::int32_t>(0xffff0000u));
                       store(reinterpret_cast<std::int32_t*>(out) + pair * kLanes, high | shift_right<16>(bits(even)));
                     });
      }
    }
  }
};

// Where a tile of x is, with rows `stride` bytes apart.
struct TileOfX {
  const char* at;
  std::size_t stride;
};

// The tile of rows [m, m + rows) at depth tile t. If K ends within it, it is filled up with zeros in `padded`.
TileOfX tile_of_x(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t t,
                  Bf16 (&padded)[kBlockRows * kDepthTile]) {
  const Bf16* const x = static_cast<const Bf16*>(args.x) + m * args.x_stride + t * kDepthTile;
  if ((t + 1) * kDepthTile <= args.k) return {reinterpret_cast<const char*>(x), args.x_stride * sizeof(Bf16)};
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < kDepthTile; ++j) {
      padded[i * kDepthTile + j] = t * kDepthTile + j < args.k ? x[i * args.x_stride + j] : Bf16{0};
    }
  }
  return {reinterpret_cast<const char*>(padded), kRowBytes};
}

// The products of a step with up to 32 rows. sums [32][kPair]; `adds`: accumulate into sums; otherwise start from 0.
template <int panels>
void multiply(const LinearArgs& args, const Step& step, std::size_t first, std::size_t m, std::size_t rows, float* sums,
              bool adds) {
  alignas(64) Bf16 padded[kBlockRows * kDepthTile];
  constexpr std::size_t kStride = kPair * sizeof(float);
  float* const second = sums + kLanes;
  float* const low = sums + kTileRows * kPair;
  const bool many = rows > kTileRows;
  if (adds) {
    tile_load<0>(sums, kStride);
    if constexpr (panels > 1) tile_load<1>(second, kStride);
    if (many) tile_load<2>(low, kStride);
    if constexpr (panels > 1) {
      if (many) tile_load<3>(low + kLanes, kStride);
    }
  } else {
    tile_zero<0>(), tile_zero<1>();
    if (many) tile_zero<2>(), tile_zero<3>();
  }
  for (std::size_t i = 0; i < step.tiles; ++i) {
    const TileOfX x = tile_of_x(args, m, rows, first + i, padded);
    tile_load<4>(x.at, x.stride);
    tile_load<6>(step.w[0][i], kRowBytes);
    if constexpr (panels > 1) tile_load<7>(step.w[1][i], kRowBytes);
    tile_multiply_bf16<0, 4, 6>();
    if constexpr (panels > 1) tile_multiply_bf16<1, 4, 7>();
    if (many) {
      tile_load<5>(x.at + kTileRows * x.stride, x.stride);
      tile_multiply_bf16<2, 5, 6>();
      if constexpr (panels > 1) tile_multiply_bf16<3, 5, 7>();
    }
  }
  tile_store<0>(sums, kStride);
  if constexpr (panels > 1) tile_store<1>(second, kStride);
  if (many) {
    tile_store<2>(low, kStride);
    if constexpr (panels > 1) tile_store<3>(low + kLanes, kStride);
  }
}

// acc = fma(d, scale, acc). `adds`: accumulate into acc; otherwise start from 0. [rows][kPair]; acc may be d.
template <int panels, class Weight>
void scale_sums(const Weight& weight, std::size_t column, std::size_t group, std::size_t rows, const float* d,
                float* acc, bool adds) {
  for (std::size_t j = 0; j < panels; ++j) {
    const F32x16 scale = weight.scale(column + j * kLanes, group);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t at = i * kPair + j * kLanes;
      store(acc + at, fma(load(d + at), scale, adds ? load(acc + at) : zero()));
    }
  }
}

template <class Y>
void finish(const LinearArgs& args, std::size_t m, std::size_t rows, std::size_t column, int panels, const float* acc) {
  for (std::size_t j = 0; j < static_cast<std::size_t>(panels); ++j) {
    const std::size_t n = column + j * kLanes, count = lanes_left(args.n - n);
    const F32x16 bias = args.bias != nullptr ? load_tail(args.bias + n, count) : zero();
    for (std::size_t i = 0; i < rows; ++i) {
      F32x16 y = load(acc + i * kPair + j * kLanes);
      if (args.bias != nullptr) y = y + bias;
      write_tail(static_cast<Y*>(args.y) + (m + i) * args.y_stride + n, y, count);
    }
  }
}

// Rows [m, m + rows), up to kChunkRows, times one or two panels. `configured`: the rows of the current configuration.
template <class Weight, int panels, class Y>
void multiply_panels(const typename Weight::Args& args, std::size_t m, std::size_t rows, std::size_t column,
                     std::size_t& configured) {
  alignas(64) float acc[kChunkRows * kPair], d[kBlockRows * kPair];
  Step step;
  const Weight weight(args);
  const std::size_t tiles = (args.k + kDepthTile - 1) / kDepthTile;
  const bool grouped = Weight::kScaled && weight.groups > 1;
  for (std::size_t t = 0; t < tiles; t += kStepTiles) {
    step.widen(weight, column, panels, t, minimum(kStepTiles, tiles - t));
    for (std::size_t r = 0; r < rows; r += kBlockRows) {
      const std::size_t count = minimum(kBlockRows, rows - r);
      if (configured != count) configure(count), configured = count;
      float* const sums = acc + r * kPair;
      multiply<panels>(args, step, t, m + r, count, grouped ? d : sums, !grouped && t > 0);
      if constexpr (Weight::kScaled) {
        if (grouped) scale_sums<panels>(weight, column, t / kStepTiles, count, d, sums, t > 0);
      }
    }
  }
  if constexpr (Weight::kScaled) {
    if (!grouped) scale_sums<panels>(weight, column, 0, rows, acc, acc, /*adds=*/false);
  }
  finish<Y>(args, m, rows, column, panels, acc);
}

template <class Weight, class Y>
void run_widened(const typename Weight::Args& args, const LinearRange& range) {
  std::size_t configured = 0;
  for (std::size_t m = range.m0; m < range.m1; m += kChunkRows) {
    const std::size_t rows = minimum(kChunkRows, range.m1 - m);
    for (std::size_t n = range.n0; n < range.n1; n += kPair) {
      if (n + kLanes < range.n1) {
        multiply_panels<Weight, 2, Y>(args, m, rows, n, configured);
      } else {
        multiply_panels<Weight, 1, Y>(args, m, rows, n, configured);
      }
    }
  }
  tiles_release();
}

// x is read in place.
std::size_t scratch_bytes(std::size_t, std::size_t) {
  return 0;
}
void prepare(const LinearArgs&, std::size_t, std::size_t) {}

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
