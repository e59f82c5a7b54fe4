// emulated_tiles.hpp: the functions of tiles.hpp in software, so that the blocking of linear/amx.cpp is tested on
// machines without AMX. What the instruction computes is emulated after its specification, and checked on machines that
// have it.
#pragma once

#include "kernels/cpu/vec/soft_float.hpp"
#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

struct TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

struct EmulatedTiles {
  TileConfig config = {};
  unsigned char data[8][16][64];
};
inline EmulatedTiles& emulated_tiles() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

inline void tiles_configure(const TileConfig& config) {
  emulated_tiles().config = config;
  std::memset(emulated_tiles().data, 0, sizeof emulated_tiles().data);
}
inline void tiles_release() {
  emulated_tiles().config = {};
}

template <int t>
void tile_zero() {
  std::memset(emulated_tiles().data[t], 0, sizeof emulated_tiles().data[t]);
}
template <int t>
void tile_load(const void* p, std::size_t row_stride_bytes) {
  EmulatedTiles& e = emulated_tiles();
  tile_zero<t>();
  for (int r = 0; r < e.config.rows[t]; ++r) {
    std::memcpy(e.data[t][r], static_cast<const char*>(p) + r * row_stride_bytes, e.config.row_bytes[t]);
  }
}
template <int t>
void tile_load_past_first_level(const void* p, std::size_t row_stride_bytes) {
  tile_load<t>(p, row_stride_bytes);
}
template <int t>
void tile_store(void* p, std::size_t row_stride_bytes) {
  EmulatedTiles& e = emulated_tiles();
  for (int r = 0; r < e.config.rows[t]; ++r) {
    std::memcpy(static_cast<char*>(p) + r * row_stride_bytes, e.data[t][r], e.config.row_bytes[t]);
  }
}

inline float widened(Bf16 h) {
  return bit_cast_to<float>(static_cast<std::uint32_t>(h) << 16);
}

// Fails by reading nonsense, as the instruction faults, if the shapes of the three tiles do not fit each other.
template <int c, int a, int b>
void tile_multiply_bf16() {
  EmulatedTiles& e = emulated_tiles();
  const bool fits = e.config.rows[c] == e.config.rows[a] && e.config.rows[b] * 4 == e.config.row_bytes[a] &&
                    e.config.row_bytes[c] == e.config.row_bytes[b];
  for (int m = 0; m < e.config.rows[c]; ++m) {
    Bf16 x[32];
    std::memcpy(x, e.data[a][m], sizeof x);
    for (int n = 0; n < e.config.row_bytes[c] / 4; ++n) {
      float even = 0, odd = 0, sum;
      for (int pair = 0; pair < e.config.rows[b]; ++pair) {
        Bf16 w[2];
        std::memcpy(w, e.data[b][pair] + 4 * n, sizeof w);
        even = soft_fma_exact_product(widened(x[2 * pair]), widened(w[0]), even);
        odd = soft_fma_exact_product(widened(x[2 * pair + 1]), widened(w[1]), odd);
      }
      std::memcpy(&sum, e.data[c][m] + 4 * n, sizeof sum);
      sum = fits ? sum + (even + odd) : -12345.0f;
      std::memcpy(e.data[c][m] + 4 * n, &sum, sizeof sum);
    }
  }
}

template <class Weight, int c, int a, int b>
void tile_multiply_bytes() {
  EmulatedTiles& e = emulated_tiles();
  const bool fits = e.config.rows[c] == e.config.rows[a] && e.config.rows[b] * 4 == e.config.row_bytes[a] &&
                    e.config.row_bytes[c] == e.config.row_bytes[b];
  for (int m = 0; m < e.config.rows[c]; ++m) {
    for (int n = 0; n < e.config.row_bytes[c] / 4; ++n) {
      std::int32_t sum;
      std::memcpy(&sum, e.data[c][m] + 4 * n, sizeof sum);
      for (int k = 0; k < e.config.row_bytes[a]; ++k) {
        sum += static_cast<std::int8_t>(e.data[a][m][k]) * static_cast<Weight>(e.data[b][k / 4][4 * n + k % 4]);
      }
      if (!fits) sum = -12345;
      std::memcpy(e.data[c][m] + 4 * n, &sum, sizeof sum);
    }
  }
}
template <int c, int a, int b>
void tile_multiply_i8_u8() {
  tile_multiply_bytes<std::uint8_t, c, a, b>();
}
template <int c, int a, int b>
void tile_multiply_i8_i8() {
  tile_multiply_bytes<std::int8_t, c, a, b>();
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
