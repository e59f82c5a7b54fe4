// plugins/kernels/cpu/linear_mxfp4/widen.hpp: depth tiles of MXFP4 weights as f32, for linear_widened.
#pragma once

#include "kernels/cpu/linear_mxfp4/linear_mxfp4.hpp"
#include "kernels/cpu/vec/fp4.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kMxfp4TileBytes = 256;  // 32 k of a panel: a group

// Panels of a weight. A value; borrows the weight.
struct Mxfp4Weight {
  using Args = LinearMxfp4Args;
  static constexpr bool kScaled = false;

  explicit Mxfp4Weight(const Args& args)
      : values(static_cast<const std::uint8_t*>(args.w)),
        exponents(args.exponents),
        panel_bytes((args.k + 63) / 64 * 64 * kLanes / 2),
        groups((args.k + kMxfp4GroupColumns - 1) / kMxfp4GroupColumns) {}

  // The halves of the numbers times twice the scale: twice the smallest scale, 2^-127, is no denormal. A product below
  // 2^-126 becomes a zero of its sign, as the bf16 number would in a product.
  template <class Put>
  MORTISE_INLINE void widen(std::size_t column, std::size_t t, Put put) const {
    const std::uint8_t* const tile = values + column / kLanes * panel_bytes + t * kMxfp4TileBytes;
    const I32x16 exponent = load_u8(exponents + (column / kLanes * groups + t) * kLanes);
    const F32x16 scale = from_bits(shift_left<23>(exponent + broadcast_i32(1)));
    for (std::size_t octet = 0; octet < 4; ++octet) {  // half byte 2 j of a word is k = j, half byte 2 j + 1 is 4 + j
      const I32x16 words = load_i32(reinterpret_cast<const std::int32_t*>(tile + octet * 64));
      put(4 * octet, half_of_fp4<0>(words) * scale, half_of_fp4<2>(words) * scale);
      put(4 * octet + 1, half_of_fp4<4>(words) * scale, half_of_fp4<6>(words) * scale);
      put(4 * octet + 2, half_of_fp4<1>(words) * scale, half_of_fp4<3>(words) * scale);
      put(4 * octet + 3, half_of_fp4<5>(words) * scale, half_of_fp4<7>(words) * scale);
    }
  }

  const std::uint8_t *values, *exponents;
  std::size_t panel_bytes, groups;
};

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
