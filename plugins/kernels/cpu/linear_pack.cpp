#include "kernels/cpu/linear_pack.hpp"

#include <cassert>
#include <cstring>

namespace mortise::cpu {
namespace {

std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

// A vector of the compiler, not of an instruction set: this file is compiled for the baseline of every target.
using U32x4 = std::uint32_t __attribute__((vector_size(16)));

U32x4 load4(const std::uint32_t* p) {
  U32x4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// out[c][r] = in[r][c] for 4 rows of `in`, `in_stride` elements apart, and 4 rows of `out`, 16 elements apart.
void transpose4x4(const std::uint32_t* in, std::size_t in_stride, std::uint32_t* out) {
  const U32x4 r0 = load4(in), r1 = load4(in + in_stride), r2 = load4(in + 2 * in_stride),
              r3 = load4(in + 3 * in_stride);
  const U32x4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const U32x4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  const U32x4 columns[4] = {
      __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
      __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (std::size_t c = 0; c < 4; ++c) std::memcpy(out + c * kPanelColumns, &columns[c], sizeof columns[c]);
}

// Transposes 16 rows of 16 words.
void transpose16x16(const std::uint32_t* in, std::size_t in_stride, std::uint32_t* out) {
  for (std::size_t c = 0; c < 16; c += 4) {
    for (std::size_t r = 0; r < 16; r += 4)
      transpose4x4(in + r * in_stride + c, in_stride, out + c * kPanelColumns + r);
  }
}

std::uint32_t f16_to_f32_bits(F16 h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7fffu;
  std::uint32_t u;
  if (magnitude >= 0x7c00u) {
    u = (magnitude << 13) + ((255u - 31u) << 23);
  } else if (magnitude >= 0x0400u) {
    u = (magnitude << 13) + ((127u - 15u) << 23);
  } else {
    const float denormal = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&u, &denormal, sizeof u);
  }
  return u | sign;
}

// Words of a tile row: pairs of bf16 as they lie in memory, or single f32.
struct PairsOfBf16 {
  using Source = Bf16;
  static constexpr std::size_t kElementsPerWord = 2;
  static void copy(const Bf16* in, std::size_t count, std::uint32_t* words) {
    std::memcpy(words, in, count * sizeof *in);
  }
};
struct SingleF32 {
  using Source = float;
  static constexpr std::size_t kElementsPerWord = 1;
  static void copy(const float* in, std::size_t count, std::uint32_t* words) {
    std::memcpy(words, in, count * sizeof *in);
  }
};
struct SingleBf16 {
  using Source = Bf16;
  static constexpr std::size_t kElementsPerWord = 1;
  static void copy(const Bf16* in, std::size_t count, std::uint32_t* words) {
    for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<std::uint32_t>(in[i]) << 16;
  }
};
struct SingleF16 {
  using Source = F16;
  static constexpr std::size_t kElementsPerWord = 1;
  static void copy(const F16* in, std::size_t count, std::uint32_t* words) {
    for (std::size_t i = 0; i < count; ++i) words[i] = f16_to_f32_bits(in[i]);
  }
};

template <class Format>
void pack(const typename Format::Source* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1,
          void* packed) {
  assert(n0 % kPanelColumns == 0 && n0 <= n1);
  constexpr std::size_t words = kTileDepth / Format::kElementsPerWord;  // a tile's: 16 or 32 rows of 16 columns
  const std::size_t tiles = ceil_div(k, kTileDepth);
  for (std::size_t first = n0; first < n1; first += kPanelColumns) {
    std::uint32_t* out = static_cast<std::uint32_t*>(packed) + first * tiles * words;
    const std::size_t columns = n1 - first < kPanelColumns ? n1 - first : kPanelColumns;
    for (std::size_t t = 0; t < tiles; ++t, out += words * kPanelColumns) {
      const std::size_t depth = k - t * kTileDepth < kTileDepth ? k - t * kTileDepth : kTileDepth;
      std::uint32_t rows[kPanelColumns][words];
      if (depth < kTileDepth || columns < kPanelColumns) std::memset(rows, 0, sizeof rows);
      for (std::size_t c = 0; c < columns; ++c) {
        Format::copy(w + (first + c) * w_stride + t * kTileDepth, depth, rows[c]);
      }
      for (std::size_t i = 0; i < words; i += 16) transpose16x16(&rows[0][i], words, out + i * kPanelColumns);
    }
  }
}

}  // namespace

std::size_t packed_bytes_bf16(std::size_t n, std::size_t k) {
  return ceil_div(n, kPanelColumns) * ceil_div(k, kTileDepth) * kPanelColumns * kTileDepth * sizeof(Bf16);
}
std::size_t packed_bytes_f32(std::size_t n, std::size_t k) {
  return ceil_div(n, kPanelColumns) * ceil_div(k, kTileDepth) * kPanelColumns * kTileDepth * sizeof(float);
}

void pack_bf16(const Bf16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed) {
  pack<PairsOfBf16>(w, w_stride, k, n0, n1, packed);
}
void pack_f32(const float* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed) {
  pack<SingleF32>(w, w_stride, k, n0, n1, packed);
}
void pack_f32_from_bf16(const Bf16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1,
                        void* packed) {
  pack<SingleBf16>(w, w_stride, k, n0, n1, packed);
}
void pack_f32_from_f16(const F16* w, std::size_t w_stride, std::size_t k, std::size_t n0, std::size_t n1,
                       void* packed) {
  pack<SingleF16>(w, w_stride, k, n0, n1, packed);
}

}  // namespace mortise::cpu
