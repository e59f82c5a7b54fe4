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

// How a matrix of the type is kept as integers: unsigned values of `bits` with one zero point and one scale for each
// group of columns. nullopt: its rows become floats. This is the only place that chooses.
struct GgufIntegers {
  int bits;
  std::int64_t group_size;
  std::uint8_t zero;
};
std::optional<GgufIntegers> kept_integers(GgufType type);

// Writes the values and the scales of whole blocks. REQUIRES: kept_integers(type); `values` has room for all elements,
// `scales` for one number a block.
void read_gguf_integers(GgufType type, std::span<const std::byte> blocks, std::uint8_t* values, float* scales);

// Writes the numbers of whole blocks (or of floats). REQUIRES: `out` has room for all elements.
void read_gguf_floats(GgufType type, std::span<const std::byte> blocks, float* out);

}  // namespace mortise
