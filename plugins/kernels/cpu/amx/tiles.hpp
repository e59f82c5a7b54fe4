// plugins/kernels/cpu/amx/tiles.hpp: AMX tiles, which are 8 registers of up to 16 rows of 64 bytes. Inline assembly,
// because gcc 12 lets _tile_loadconfig lose the stores into the configuration that precede it. The configuration and
// the AMX tiles belong to the thread: a kernel configures at its entry and releases at its exit, so that no other code
// pays for saving them at a context switch.
#pragma once

#include "kernels/cpu/vec/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

// The memory operand of ldtilecfg. Palette 1 is a constant: CPUID leaf 0x1D, which describes it, may be hidden (for
// example by a hypervisor).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

MORTISE_INLINE void tiles_configure(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config));
}
MORTISE_INLINE void tiles_release() {
  asm volatile("tilerelease" ::: "memory");
}

template <int t>
MORTISE_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(t));
}
template <int t>
MORTISE_INLINE void tile_load(const void* p, std::size_t row_stride_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(row_stride_bytes), "i"(t) : "memory");
}
// The same load, but without evicting lines of the first-level cache: for AMX tiles that come from the second-level
// cache.
template <int t>
MORTISE_INLINE void tile_load_past_first_level(const void* p, std::size_t row_stride_bytes) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(row_stride_bytes), "i"(t) : "memory");
}
template <int t>
MORTISE_INLINE void tile_store(void* p, std::size_t row_stride_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(row_stride_bytes), "i"(t) : "memory");
}
// c[m][n] += (fma chain over even k) + (fma chain over odd k), k = 0 .. 31; a [m][32] bf16, b [16 pairs of k][n][2]
// bf16.
template <int c, int a, int b>
MORTISE_INLINE void tile_multiply_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}
// c[m][n] += sum of a[m][k] b[k][n], k = 0 .. 63, exact in 32 bits; a [m][64] int8, b [16 quads of k][n][4] unsigned.
template <int c, int a, int b>
MORTISE_INLINE void tile_multiply_i8_u8() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}
// The same with signed b.
template <int c, int a, int b>
MORTISE_INLINE void tile_multiply_i8_i8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
}

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
