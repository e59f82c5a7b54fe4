// plugins/kernels/cpu/linear_int/unpack.hpp: 4-bit weights as bytes, which AMX tiles multiply. Used by linear_int and
// linear_block32, which share the order of the values (linear_int/pack.hpp).
#pragma once

#include "kernels/cpu/linear_int/rows.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

constexpr std::size_t kUnpackedBytes = std::size_t{1} << 21;

// The unpacked weights of a chunk of columns. thread_local, because it is too large for the stack.
alignas(64) inline thread_local std::uint8_t unpacked_weights[kUnpackedBytes];

// Whether two panels of weights over all of K fit into the buffer.
constexpr bool can_unpack(std::size_t k) {
  return 2 * kLanes * int_depth(k) <= kUnpackedBytes;
}

// Unpacks `depth` k of a panel, [octets][16 n][4 bytes], to bytes [quads][16 n][4], less `zero`: the zero point of each
// n, four times.
inline void unpack(const std::uint8_t* packed, std::size_t depth, I32x16 zero, std::uint8_t* out) {
  const I32x16 nibble = broadcast_i32(0x0f0f0f0f), sign = broadcast_i32(static_cast<std::int32_t>(0x80808080u));
  // Setting bit 7 first keeps a byte's subtraction from borrowing from the next byte; the xor restores the sign.
  const auto less_zero = [&](I32x16 quads) {
    const I32x16 raised = (quads | sign) - zero;
    return raised ^ sign;
  };
  for (std::size_t octet = 0; octet < depth / 8; ++octet) {
    const I32x16 raw = load_i32(reinterpret_cast<const std::int32_t*>(packed + octet * 64));
    auto* quads = reinterpret_cast<std::int32_t*>(out + octet * 128);
    store(quads, less_zero(raw & nibble));
    store(quads + kLanes, less_zero(shift_right<4>(raw) & nibble));
  }
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
