#include "kernels/cpu/linear/pack.hpp"

#include <cstring>

namespace mortise::cpu {
namespace {

std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

// A compiler vector (GCC extension), because this file is compiled for the baseline of every target.
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

// The words in a row of a tile: pairs of bf16 in memory order, or single f32.
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
void pack_panel(const typename Format::Source* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  // In a tile row; a tile is 16 or 32 rows of 16 columns.
  constexpr std::size_t words = kTileDepth / Format::kElementsPerWord;
  std::uint32_t* out = static_cast<std::uint32_t*>(panel);
  for (std::size_t first = 0; first < k; first += kTileDepth, out += words * kPanelColumns) {
    const std::size_t depth = k - first < kTileDepth ? k - first : kTileDepth;
    std::uint32_t columns[kPanelColumns][words];
    for (std::size_t c = 0; c < kPanelColumns; ++c) {
      if (depth < kTileDepth || rows[c] == nullptr) std::memset(columns[c], 0, sizeof columns[c]);
      if (rows[c] != nullptr) Format::copy(rows[c] + first, depth, columns[c]);
    }
    for (std::size_t i = 0; i < words; i += 16) transpose16x16(&columns[0][i], words, out + i * kPanelColumns);
  }
}

// Reads the k elements of row n from the packed weights. A 32-bit word holds one f32 or two bf16 elements of the row.
// Consecutive words of the row are 16 words apart, because the 16 rows of a panel are interleaved.
template <class Element>
void unpack_row(const void* packed, std::size_t k, std::size_t n, Element* row) {
  constexpr std::size_t per_word = sizeof(std::uint32_t) / sizeof(Element);
  const std::size_t words = ceil_div(k, kTileDepth) * kTileDepth / per_word;
  const std::uint32_t* in =
      static_cast<const std::uint32_t*>(packed) + n / kPanelColumns * words * kPanelColumns + n % kPanelColumns;
  for (std::size_t i = 0; i < k; i += per_word) {
    const std::size_t count = k - i < per_word ? k - i : per_word;
    std::memcpy(row + i, in + i / per_word * kPanelColumns, count * sizeof(Element));
  }
}

}  // namespace

std::size_t packed_bytes_bf16(std::size_t n, std::size_t k) {
  return ceil_div(n, kPanelColumns) * ceil_div(k, kTileDepth) * kPanelColumns * kTileDepth * sizeof(Bf16);
}
std::size_t packed_bytes_f32(std::size_t n, std::size_t k) {
  return ceil_div(n, kPanelColumns) * ceil_div(k, kTileDepth) * kPanelColumns * kTileDepth * sizeof(float);
}

void pack_panel_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel<PairsOfBf16>(rows, k, panel);
}
void pack_panel_f32(const float* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel<SingleF32>(rows, k, panel);
}
void pack_panel_f32_from_bf16(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel<SingleBf16>(rows, k, panel);
}
void pack_panel_f32_from_f16(const F16* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel<SingleF16>(rows, k, panel);
}

void unpack_row_bf16(const void* packed, std::size_t k, std::size_t n, Bf16* row) {
  unpack_row(packed, k, n, row);
}
void unpack_row_f32(const void* packed, std::size_t k, std::size_t n, float* row) {
  unpack_row(packed, k, n, row);
}

}  // namespace mortise::cpu
