// runtime/checkpoint/gguf/types.hpp: the types of tensors in GGUF files: their sizes, and their numbers as floats. A
// row is a sequence of blocks; a block of 32 or 256 numbers has its own scales. The arithmetic is that of the `gguf`
// package (quants.py), to the bit: tests/golden/make_gguf_types.py. Functions keep no state, so any thread may call
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mortise {

// The numbers are those of the format.
enum class GgufType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIq4_nl = 20,
  kBf16 = 30
};

struct GgufTypeInfo {
  GgufType type;
  std::string_view name;
  std::uint32_t block_elements;  // 1 for floats
  std::uint32_t block_bytes;
};

// nullopt: not served.
std::optional<GgufTypeInfo> find_gguf_type(std::uint32_t number);
// REQUIRES: one of the enumerators.
const GgufTypeInfo& info_of(GgufType type);

// The name of any type of the format, "Q2_K", or "type 77" if the format has no such number. For messages.
std::string gguf_type_name(std::uint32_t number);
// The names of the served types, with commas.
std::string served_gguf_types();

// How a matrix of the type is kept as integers of the class `cpu-int8-block32/1` (docs/numerics.md, "Quantised linear
// in blocks of 32"): unsigned values of `bits`, a scale and, if it has minima, a minimum for each group of columns.
//   w = scale * (value - zero) + minimum
struct GgufIntegers {
  int bits;
  std::int64_t group_size;
  std::uint8_t zero = 0;
  bool has_minima = false;
  bool half_factors = false;  // all scales and minima are exact in f16

  // The number of scales and minima of so many elements. REQUIRES: whole groups.
  std::size_t factors(std::size_t elements) const {
    return elements / static_cast<std::size_t>(group_size) * (has_minima ? 2 : 1);
  }
  std::size_t factor_bytes() const { return half_factors ? 2 : 4; }  // of each, on a device
};
// nullopt: a type of floats. This is the only place that chooses. Types of 5 and 6 bits, and IQ4_NL, are kept in 8
// bits: with their scales that is 8.5 to 10 bits a weight, where bf16 has 16, and the product is one of integers, too.
std::optional<GgufIntegers> kept_integers(GgufType type);

// Writes the values and the factors of whole blocks: of each group its scale, or its scale and its minimum. REQUIRES:
// kept_integers(type); `values` has room for all elements, `factors` for kept_integers(type)->factors(elements).
void read_gguf_integers(GgufType type, std::span<const std::byte> blocks, std::uint8_t* values, float* factors);

// Writes the numbers of whole blocks (or of floats). REQUIRES: `out` has room for all elements.
void read_gguf_floats(GgufType type, std::span<const std::byte> blocks, float* out);

}  // namespace mortise
