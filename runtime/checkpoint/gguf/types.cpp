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

float bf16_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
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

// The readers below write the values of one block, and the factors of its groups: scales, or pairs of a scale and a
// minimum.
void q4_0(const std::byte* block, std::uint8_t* values, float* factors) {
  factors[0] = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) values[i] = nibble(block + 2, i);
}

void q4_1(const std::byte* block, std::uint8_t* values, float* factors) {
  factors[0] = half_at(block), factors[1] = half_at(block + 2);
  for (std::size_t i = 0; i < 32; ++i) values[i] = nibble(block + 4, i);
}

// 32 values of 5 bits: the highest of each in a word, the others in halves of bytes after it.
void five_bits(const std::byte* high_bits, std::uint8_t* values) {
  const std::uint32_t high = word_at(high_bits);
  for (std::size_t i = 0; i < 32; ++i) {
    values[i] = static_cast<std::uint8_t>(nibble(high_bits + 4, i) | (high >> i & 1) << 4);
  }
}

void q5_0(const std::byte* block, std::uint8_t* values, float* factors) {
  factors[0] = half_at(block);
  five_bits(block + 2, values);
}

void q5_1(const std::byte* block, std::uint8_t* values, float* factors) {
  factors[0] = half_at(block), factors[1] = half_at(block + 2);
  five_bits(block + 4, values);
}

void q8_0(const std::byte* block, std::uint8_t* values, float* factors) {
  factors[0] = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) values[i] = byte_at(block + 2, i) ^ 0x80u;  // signed bytes begin at -128
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
// bit j of each byte. Minima are subtracted. A half times 6 bits is exact in f32.
void k_parts(const std::byte* block, const std::byte* high, const std::byte* nibbles, std::uint8_t* values,
             float* factors) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (std::size_t j = 0; j < 8; ++j) {
    const KScale part = k_scale(block + 4, j);
    *factors++ = scale * static_cast<float>(part.scale);
    *factors++ = -(least * static_cast<float>(part.least));
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint8_t pair = byte_at(nibbles, j / 2 * 32 + i);
      int value = j % 2 == 0 ? pair & 15 : pair >> 4;
      if (high != nullptr) value |= (byte_at(high, i) >> j & 1) << 4;
      *values++ = static_cast<std::uint8_t>(value);
    }
  }
}

void q4_k(const std::byte* block, std::uint8_t* values, float* factors) {
  k_parts(block, nullptr, block + 16, values, factors);
}

void q5_k(const std::byte* block, std::uint8_t* values, float* factors) {
  k_parts(block, block + 16, block + 48, values, factors);
}

// 16 parts of 16 with a scale each; two halves of 128 elements, in each of which the lowest four bits of elements i and
// i + 64 share a byte, and the highest two of elements i, i + 32, i + 64 and i + 96.
void q6_k(const std::byte* block, std::uint8_t* values, float* factors) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block + 208);
  for (std::size_t j = 0; j < 16; ++j) {
    factors[j] = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, j)));
  }
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, at = i % 128;
    const std::uint8_t pair = byte_at(low, half * 64 + at % 64);
    const int four = at < 64 ? pair & 15 : pair >> 4;
    const int two = byte_at(high, half * 32 + at % 32) >> (at / 32 * 2) & 3;
    values[i] = static_cast<std::uint8_t>(four | two << 4);
  }
}

// The format has a table of 16 values.
void iq4_nl(const std::byte* block, std::uint8_t* values, float* factors) {
  constexpr int kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  factors[0] = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) values[i] = static_cast<std::uint8_t>(kValues[nibble(block + 2, i)] + 128);
}

// How the blocks of a type are integers.
struct Blocks {
  GgufType type;
  GgufIntegers integers;
  void (*read)(const std::byte* block, std::uint8_t* values, float* factors);
};
constexpr Blocks kBlocks[] = {
    {GgufType::kQ8_0, {.bits = 8, .group_size = 32, .zero = 128, .half_factors = true}, q8_0},
    {GgufType::kQ4_0, {.bits = 4, .group_size = 32, .zero = 8, .half_factors = true}, q4_0},
    {GgufType::kQ4_1, {.bits = 4, .group_size = 32, .has_minima = true, .half_factors = true}, q4_1},
    {GgufType::kQ5_0, {.bits = 8, .group_size = 32, .zero = 16, .half_factors = true}, q5_0},
    {GgufType::kQ5_1, {.bits = 8, .group_size = 32, .has_minima = true, .half_factors = true}, q5_1},
    {GgufType::kQ4_K, {.bits = 4, .group_size = 32, .has_minima = true}, q4_k},
    {GgufType::kQ5_K, {.bits = 8, .group_size = 32, .has_minima = true}, q5_k},
    {GgufType::kQ6_K, {.bits = 8, .group_size = 16, .zero = 32}, q6_k},
    {GgufType::kIq4_nl, {.bits = 8, .group_size = 32, .zero = 128, .half_factors = true}, iq4_nl},
};
constexpr std::size_t kMostElements = 256, kMostFactors = 16;  // of a block

// nullptr: of floats.
const Blocks* find_blocks(GgufType type) {
  const auto* found = std::ranges::find(kBlocks, type, &Blocks::type);
  return found == std::end(kBlocks) ? nullptr : found;
}

// The numbers of one block: the definition of its integers, in f32.
void read_block_floats(const Blocks& blocks, const GgufTypeInfo& info, const std::byte* block, float* out) {
  std::uint8_t values[kMostElements];
  float factors[kMostFactors];
  blocks.read(block, values, factors);
  const GgufIntegers& integers = blocks.integers;
  const auto group = static_cast<std::size_t>(integers.group_size);
  for (std::size_t i = 0; i < info.block_elements; ++i) {
    const float value = static_cast<float>(values[i] - integers.zero);
    const std::size_t g = i / group;
    out[i] = integers.has_minima ? factors[2 * g] * value + factors[2 * g + 1] : factors[g] * value;
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

std::optional<GgufIntegers> kept_integers(GgufType type) {
  const Blocks* blocks = find_blocks(type);
  return blocks == nullptr ? std::nullopt : std::optional(blocks->integers);
}

void read_gguf_integers(GgufType type, std::span<const std::byte> blocks, std::uint8_t* values, float* factors) {
  const GgufTypeInfo& info = info_of(type);
  const Blocks* reader = find_blocks(type);
  assert(reader != nullptr);
  const std::size_t num_factors = reader->integers.factors(info.block_elements);
  for (std::size_t at = 0; at < blocks.size(); at += info.block_bytes) {
    reader->read(blocks.data() + at, values, factors);
    values += info.block_elements;
    factors += num_factors;
  }
}

void read_gguf_floats(GgufType type, std::span<const std::byte> blocks, float* out) {
  const GgufTypeInfo& info = info_of(type);
  if (type == GgufType::kF32) {
    std::memcpy(out, blocks.data(), blocks.size());
    return;
  }
  const Blocks* reader = find_blocks(type);
  for (std::size_t at = 0; at < blocks.size(); at += info.block_bytes, out += info.block_elements) {
    if (reader != nullptr) {
      read_block_floats(*reader, info, blocks.data() + at, out);
    } else {
      *out = type == GgufType::kF16 ? half_at(blocks.data() + at) : bf16_at(blocks.data() + at);
    }
  }
}

}  // namespace mortise
