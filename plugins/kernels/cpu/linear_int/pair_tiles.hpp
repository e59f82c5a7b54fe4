// plugins/kernels/cpu/linear_int/pair_tiles.hpp: up to 32 rows of int8 times two panels of weights on AMX tiles, and
// where their 32-bit sums lie. Used by linear_int and linear_block32, which share the order of the values
// (linear_int/pack.hpp).
#pragma once

#include "kernels/cpu/linear_int/rows.hpp"
#if defined(MORTISE_EMULATED_TILES)  // tests run the blocking on machines without AMX
#include "emulated_tiles.hpp"
#else
#include "kernels/cpu/amx/tiles.hpp"
#endif

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// noinline: a job that is inlined into the loop over tiles makes the compiler hold the loop's addresses in vector
// registers.
#define MORTISE_NOINLINE __attribute__((noinline))

constexpr std::size_t kTileRows = 16;
constexpr std::size_t kPairRows = 2 * kTileRows;
constexpr std::size_t kTileSums = kTileRows * kLanes;
constexpr std::size_t kPairSums = 4 * kTileSums;
constexpr std::size_t kRowBytes = 64;  // bytes in a row of a tile of weights or sums

// c += a times bytes of weights.
template <bool is_signed, int c, int a, int b>
MORTISE_INLINE void multiply_tiles() {
  if constexpr (is_signed) {
    tile_multiply_i8_i8<c, a, b>();
  } else {
    tile_multiply_i8_u8<c, a, b>();
  }
}

// Tiles 0-3 accumulate (row tile, panel) = (0,0) (0,1) (1,0) (1,1). Tiles 4 and 5 hold x, tiles 6 and 7 weights.
inline void configure(std::size_t rows, std::size_t depth) {
  TileConfig config;
  const auto low = static_cast<std::uint8_t>(minimum(rows, kTileRows));
  const auto high = static_cast<std::uint8_t>(rows > kTileRows ? rows - kTileRows : kTileRows);
  const auto quads = static_cast<std::uint8_t>(depth / 4);
  const std::uint8_t tile_rows[8] = {low, low, high, high, low, high, quads, quads};
  for (int t = 0; t < 8; ++t) {
    const bool is_x = t == 4 || t == 5;
    config.row_bytes[t] = static_cast<std::uint16_t>(is_x ? depth : kRowBytes);
    config.rows[t] = tile_rows[t];
  }
  tiles_configure(config);
}

template <bool is_signed, int row_tiles, int panels>
MORTISE_INLINE void multiply_tile(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w,
                                  std::size_t to_second) {
  tile_load_past_first_level<6>(w, kRowBytes);
  tile_load<4>(x, x_stride);
  multiply_tiles<is_signed, 0, 4, 6>();
  if constexpr (row_tiles > 1) {
    tile_load<5>(x + kTileRows * x_stride, x_stride);
    multiply_tiles<is_signed, 2, 5, 6>();
  }
  if constexpr (panels > 1) {
    tile_load_past_first_level<7>(w + to_second, kRowBytes);
    multiply_tiles<is_signed, 1, 4, 7>();
    if constexpr (row_tiles > 1) multiply_tiles<is_signed, 3, 5, 7>();
  }
}

template <int row_tiles, int panels>
MORTISE_INLINE void zero_sums() {
  tile_zero<0>();
  if constexpr (panels > 1) tile_zero<1>();
  if constexpr (row_tiles > 1) tile_zero<2>();
  if constexpr (row_tiles > 1 && panels > 1) tile_zero<3>();
}

template <int row_tiles, int panels>
MORTISE_INLINE void store_sums(std::int32_t* sums) {
  tile_store<0>(sums, kRowBytes);
  if constexpr (panels > 1) tile_store<1>(sums + 2 * kTileSums, kRowBytes);
  if constexpr (row_tiles > 1) tile_store<2>(sums + kTileSums, kRowBytes);
  if constexpr (row_tiles > 1 && panels > 1) tile_store<3>(sums + 3 * kTileSums, kRowBytes);
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
