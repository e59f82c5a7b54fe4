#include "checkpoint/gguf/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <iterator>

#include "checkpoint/half.hpp"

namespace mortise {
namespace {

constexpr GgufTypeInfo kTypes[] = {
    {GgufType::kF32, "F32", 1, 4},       {GgufType::kF16, "F16", 1, 2},         {GgufType::kQ4_0, "Q4_0", 32, 18},
    {GgufType::kQ4_1, "Q4_1", 32, 20},   {GgufType::kQ5_0, "Q5_0", 32, 22},     {GgufType::kQ5_1, "Q5_1", 32, 24},
    {GgufType::kQ8_0, "Q8_0", 32, 34},   {GgufType::kQ4_K, "Q4_K", 256, 144},   {GgufType::kQ5_K, "Q5_K", 256, 176},
    {GgufType::kQ6_K, "Q6_K", 256, 210}, {GgufType::kIq4_nl, "IQ4_NL", 32, 18}, {GgufType::kBf16, "BF16", 1, 2},
};

// All types of ggml.h that files may have; "" where a number was given up.
constexpr const char* kNames[] = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4",
};

std::uint8_t byte_at(const std::byte* at, std::size_t i) {
  return static_cast<std::uint8_t>(at[i]);
}

float half_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return half_to_float(bits);
}

std::uint32_t word_at(const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// Element i of 32: the low halves of the bytes come first.
std::uint8_t nibble(const std::byte* bytes, std::size_t i) {
  return i < 16 ? byte_at(bytes, i) & 15 : byte_at(bytes, i - 16) >> 4;
}

void q4_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
}

void q4_1(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
}

void q5_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  const std::uint32_t high = word_at(block + 2);
  for (std::size_t i = 0; i < 32; ++i) {
    const int value = nibble(block + 6, i) | static_cast<int>(high >> i & 1) << 4;
    out[i] = scale * static_cast<float>(value - 16);
  }
}

void q5_1(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  const std::uint32_t high = word_at(block + 4);
  for (std::size_t i = 0; i < 32; ++i) {
    const int value = nibble(block + 8, i) | static_cast<int>(high >> i & 1) << 4;
    out[i] = scale * static_cast<float>(value) + least;
  }
}

void q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(block + 2, i)));
  }
}

// The scale and the minimum of part j of eight, 6 bits each in 12 bytes.
struct KScale {
  int scale, least;
};
KScale k_scale(const std::byte* scales, std::size_t j) {
  if (j < 4) return {byte_at(scales, j) & 63, byte_at(scales, j + 4) & 63};
  return {(byte_at(scales, j + 4) & 15) | (byte_at(scales, j - 4) >> 6) << 4,
          (byte_at(scales, j + 4) >> 4) | (byte_at(scales, j) >> 6) << 4};
}

// Q4_K and Q5_K: eight parts of 32. Two parts share 32 bytes, the low halves first; `high`: the fifth bits, part j in
// bit j of each byte.
void k_parts(const std::byte* block, const std::byte* high, const std::byte* values, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (std::size_t j = 0; j < 8; ++j) {
    const KScale part = k_scale(block + 4, j);
    const float part_scale = scale * static_cast<float>(part.scale),
                part_least = least * static_cast<float>(part.least);
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint8_t pair = byte_at(values, j / 2 * 32 + i);
      int value = j % 2 == 0 ? pair & 15 : pair >> 4;
      if (high != nullptr) value |= (byte_at(high, i) >> j & 1) << 4;
      out[j * 32 + i] = part_scale * static_cast<float>(value) - part_least;
    }
  }
}

void q4_k(const std::byte* block, float* out) {
  k_parts(block, nullptr, block + 16, out);
}

void q5_k(const std::byte* block, float* out) {
  k_parts(block, block + 16, block + 48, out);
}

// 16 parts of 16 with a scale each; two halves of 128 elements, in each of which the lowest four bits of elements i and
// i + 64 share a byte, and the highest two of elements i, i + 32, i + 64 and i + 96.
void q6_k(const std::byte* block, float* out) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block + 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, at = i % 128;
    const std::uint8_t pair = byte_at(low, half * 64 + at % 64);
    const int four = at < 64 ? pair & 15 : pair >> 4;
    const int two = byte_at(high, half * 32 + at % 32) >> (at / 32 * 2) & 3;
    const float part_scale = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, i / 16)));
    out[i] = part_scale * static_cast<float>((four | two << 4) - 32);
  }
}

void iq4_nl(const std::byte* block, float* out) {
  constexpr int kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  const float scale = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kValues[nibble(block + 2, i)]);
}

void f16(const std::byte* element, float* out) {
  *out = half_at(element);
}

void bf16(const std::byte* element, float* out) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof bits);
  *out = std::bit_cast<float>(std::uint32_t{bits} << 16);
}

template <auto read_block>
void for_each_block(const GgufTypeInfo& info, std::span<const std::byte> blocks, float* out) {
  for (std::size_t at = 0; at < blocks.size(); at += info.block_bytes, out += info.block_elements) {
    read_block(blocks.data() + at, out);
  }
}

}  // namespace

std::optional<GgufTypeInfo> find_gguf_type(std::uint32_t number) {
  const auto* found = std::ranges::find(kTypes, static_cast<GgufType>(number), &GgufTypeInfo::type);
  return found == std::end(kTypes) ? std::nullopt : std::optional(*found);
}

const GgufTypeInfo& info_of(GgufType type) {
  const auto* found = std::ranges::find(kTypes, type, &GgufTypeInfo::type);
  assert(found != std::end(kTypes));
  return *found;
}

std::string gguf_type_name(std::uint32_t number) {
  if (number < std::size(kNames) && *kNames[number] != '\0') return kNames[number];
  return fmt::format("type {}", number);
}

std::string served_gguf_types() {
  std::string names;
  for (const GgufTypeInfo& info : kTypes) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

// Scales are the halves of the file, widened.
std::optional<GgufIntegers> kept_integers(GgufType type) {
  if (type == GgufType::kQ8_0) return GgufIntegers{.bits = 8, .group_size = 32, .zero = 128};
  if (type == GgufType::kQ4_0) return GgufIntegers{.bits = 4, .group_size = 32, .zero = 8};
  return std::nullopt;
}

void read_gguf_integers(GgufType type, std::span<const std::byte> blocks, std::uint8_t* values, float* scales) {
  const GgufTypeInfo& info = info_of(type);
  for (std::size_t at = 0; at < blocks.size(); at += info.block_bytes, values += 32) {
    const std::byte* block = blocks.data() + at;
    *scales++ = half_at(block);
    for (std::size_t i = 0; i < 32; ++i) {
      // Signed bytes begin at -128.
      values[i] = type == GgufType::kQ8_0 ? byte_at(block + 2, i) ^ 0x80u : nibble(block + 2, i);
    }
  }
}

void read_gguf_floats(GgufType type, std::span<const std::byte> blocks, float* out) {
  const GgufTypeInfo& info = info_of(type);
  switch (type) {
    case GgufType::kF32:
      std::memcpy(out, blocks.data(), blocks.size());
      return;
    case GgufType::kF16:
      return for_each_block<f16>(info, blocks, out);
    case GgufType::kBf16:
      return for_each_block<bf16>(info, blocks, out);
    case GgufType::kQ4_0:
      return for_each_block<q4_0>(info, blocks, out);
    case GgufType::kQ4_1:
      return for_each_block<q4_1>(info, blocks, out);
    case GgufType::kQ5_0:
      return for_each_block<q5_0>(info, blocks, out);
    case GgufType::kQ5_1:
      return for_each_block<q5_1>(info, blocks, out);
    case GgufType::kQ8_0:
      return for_each_block<q8_0>(info, blocks, out);
    case GgufType::kQ4_K:
      return for_each_block<q4_k>(info, blocks, out);
    case GgufType::kQ5_K:
      return for_each_block<q5_k>(info, blocks, out);
    case GgufType::kQ6_K:
      return for_each_block<q6_k>(info, blocks, out);
    case GgufType::kIq4_nl:
      return for_each_block<iq4_nl>(info, blocks, out);
  }
}

}  // namespace mortise
