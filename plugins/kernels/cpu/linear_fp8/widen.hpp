// plugins/kernels/cpu/linear_fp8/widen.hpp: depth tiles of E4M3 weights as f32, and scales of a panel's groups, for
// linear_widened.
#pragma once

#include "kernels/cpu/linear_fp8/linear_fp8.hpp"
#include "kernels/cpu/vec/fp8.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t kFp8TileBytes = 512;  // 32 k of a panel

// Bytes of a packed panel of k columns.
constexpr std::size_t fp8_panel_bytes(std::size_t k) {
  return (k + 63) / 64 * 64 * kLanes;
}

// Panels and groups of a weight. A value; borrows the weight.
struct Fp8Weight {
  using Args = LinearFp8Args;
  static constexpr bool kScaled = true;

  explicit Fp8Weight(const LinearFp8Args& args)
      : values(static_cast<const std::uint8_t*>(args.w)),
        scales(args.scales),
        panel_bytes(fp8_panel_bytes(args.k)),
        groups(args.group_size >= args.k ? 1 : (args.k + args.group_size - 1) / args.group_size) {}

  template <class Put>
  MORTISE_INLINE void widen(std::size_t column, std::size_t t, Put put) const {
    const std::uint8_t* const tile = values + column / kLanes * panel_bytes + t * kFp8TileBytes;
    for (std::size_t quad = 0; quad < 8; ++quad) {
      const I32x16 words = load_i32(reinterpret_cast<const std::int32_t*>(tile + quad * 64));
      put(2 * quad, widen_fp8<0>(words), widen_fp8<1>(words));
      put(2 * quad + 1, widen_fp8<2>(words), widen_fp8<3>(words));
    }
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
