// widen.hpp: E4M3 weights as f32, which is exact, and scales of a panel's groups.
#pragma once

#include "kernels/cpu/linear_fp8/linear_fp8.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kFp8TileBytes = 512;  // 32 k of a panel
constexpr std::size_t kFp8StepTiles = 4;    // tiles that are widened at a time: a group

// Bytes of a packed panel of k columns.
constexpr std::size_t fp8_panel_bytes(std::size_t k) {
  return (k + 63) / 64 * 64 * kLanes;
}

// The numbers in byte `i` of each word: a sign, four bits of exponent, three of mantissa. With exponent 0 there is no
// implicit 1, so 2^-6 is added and subtracted again. Denormals of f32 do not occur.
template <unsigned i>
MORTISE_INLINE F32x16 widen_fp8(I32x16 words) {
  constexpr std::int32_t kBias = (127 - 7) << 23, kOne = 1 << 23;
  I32x16 sign = words, magnitude = words;
  if constexpr (i < 3) sign = shift_left<24 - 8 * i>(words);
  if constexpr (i < 3) magnitude = shift_left<20 - 8 * i>(words);
  if constexpr (i == 3) magnitude = shift_right<4>(words);
  sign = sign & broadcast_i32(static_cast<std::int32_t>(0x80000000u));
  magnitude = magnitude & broadcast_i32(0x07f00000);
  const F32x16 usual = from_bits(magnitude + broadcast_i32(kBias));
  const F32x16 small = from_bits(magnitude + broadcast_i32(kBias + kOne)) - broadcast(0x1p-6f);
  return from_bits(bits(select(gt(magnitude, broadcast_i32(kOne - 1)), usual, small)) | sign);
}

// Widens a tile: calls put(pair of k, even, odd) for its 16 pairs.
template <class Put>
MORTISE_INLINE void widen_tile(const std::uint8_t* tile, Put put) {
  for (std::size_t quad = 0; quad < 8; ++quad) {
    const I32x16 words = load_i32(reinterpret_cast<const std::int32_t*>(tile + quad * 64));
    put(2 * quad, widen_fp8<0>(words), widen_fp8<1>(words));
    put(2 * quad + 1, widen_fp8<2>(words), widen_fp8<3>(words));
  }
}

// Panels and groups of a weight.
struct Fp8Weight {
  explicit Fp8Weight(const LinearFp8Args& args)
      : values(static_cast<const std::uint8_t*>(args.w)),
        scales(args.scales),
        panel_bytes(fp8_panel_bytes(args.k)),
        groups(args.group_size >= args.k ? 1 : (args.k + args.group_size - 1) / args.group_size) {}

  const std::uint8_t* tile(std::size_t column, std::size_t t) const {
    return values + column / kLanes * panel_bytes + t * kFp8TileBytes;
  }
  F32x16 scale(std::size_t column, std::size_t group) const {
    return load(scales + (column / kLanes * groups + group) * kLanes);
  }

  const std::uint8_t* values;
  const float* scales;
  std::size_t panel_bytes, groups;
};

}  // namespace
}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
