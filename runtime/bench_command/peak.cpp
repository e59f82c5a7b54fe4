#include "bench_command/peak.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mortise::bench {
namespace {

// Multiplies and adds, as any compiler optimises it for the target of this build.
double f32_rounds(std::size_t rounds) {
  constexpr std::size_t kChains = 48;
  float chains[kChains];
  for (float& c : chains) c = 1.0f;
  volatile float half = 0.5f;  // volatile, so that the compiler does not know the result
  const float factor = half;
  for (std::size_t i = 0; i < rounds; ++i) {
    for (float& c : chains) c = c * factor + factor;
  }
  volatile float sink = 0;
  for (const float c : chains) sink = sink + c;
  return 2.0 * kChains * static_cast<double>(rounds);
}

#if defined(__x86_64__)

// Twelve chains hide the latency, and leave registers for the operands.
#define MORTISE_TWELVE(instruction)                                                                              \
  asm volatile(instruction " %12,%13,%0\n" instruction " %12,%13,%1\n" instruction " %12,%13,%2\n" instruction   \
                           " %12,%13,%3\n" instruction " %12,%13,%4\n" instruction " %12,%13,%5\n" instruction   \
                           " %12,%13,%6\n" instruction " %12,%13,%7\n" instruction " %12,%13,%8\n" instruction   \
                           " %12,%13,%9\n" instruction " %12,%13,%10\n" instruction " %12,%13,%11\n"             \
               : "+v"(c[0]), "+v"(c[1]), "+v"(c[2]), "+v"(c[3]), "+v"(c[4]), "+v"(c[5]), "+v"(c[6]), "+v"(c[7]), \
                 "+v"(c[8]), "+v"(c[9]), "+v"(c[10]), "+v"(c[11])                                                \
               : "v"(x), "v"(x))

__attribute__((target("avx2,fma"))) double avx2_fma_rounds(std::size_t rounds) {
  __m256 c[12] = {}, x = _mm256_setzero_ps();
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("vfmadd231ps");
  return 12 * 2.0 * 8 * static_cast<double>(rounds);
}

// Sums bytes to 16 bits, the fastest way without VNNI. 4-bit weights may stay in 16 bits for a while. 8-bit weights
// need more instructions (linear_int/dot.hpp), so no kernel can reach this peak.
__attribute__((target("avx2"))) double avx2_int8_rounds(std::size_t rounds) {
  __m256i c[8] = {}, x = _mm256_setzero_si256(), product;
#define MORTISE_BYTES(sum) "vpmaddubsw %9,%9,%8\nvpaddw %8," sum "," sum "\n"
  for (std::size_t i = 0; i < rounds; ++i) {
    asm volatile(MORTISE_BYTES("%0") MORTISE_BYTES("%1") MORTISE_BYTES("%2") MORTISE_BYTES("%3") MORTISE_BYTES("%4")
                     MORTISE_BYTES("%5") MORTISE_BYTES("%6") MORTISE_BYTES("%7")
                 : "+x"(c[0]), "+x"(c[1]), "+x"(c[2]), "+x"(c[3]), "+x"(c[4]), "+x"(c[5]), "+x"(c[6]), "+x"(c[7]),
                   "=&x"(product)
                 : "x"(x));
  }
#undef MORTISE_BYTES
  return 8 * 2.0 * 32 * static_cast<double>(rounds);
}

__attribute__((target("avx512f"))) double avx512_fma_rounds(std::size_t rounds) {
  __m512 c[12] = {}, x = _mm512_setzero_ps();
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("vfmadd231ps");
  return 12 * 2.0 * 16 * static_cast<double>(rounds);
}

__attribute__((target("avx512f,avx512bf16"))) double avx512_bf16_rounds(std::size_t rounds) {
  __m512 c[12] = {}, x = _mm512_setzero_ps();
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("vdpbf16ps");
  return 12 * 2.0 * 32 * static_cast<double>(rounds);
}

__attribute__((target("avx512f,avx512vnni"))) double avx512_int8_rounds(std::size_t rounds) {
  __m512i c[12] = {}, x = _mm512_setzero_si512();
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("vpdpbusd");
  return 12 * 2.0 * 64 * static_cast<double>(rounds);
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define MORTISE_FOUR_TILES(instruction)                                                                \
  asm volatile(instruction " %%tmm6,%%tmm4,%%tmm0\n" instruction " %%tmm6,%%tmm5,%%tmm1\n" instruction \
                           " %%tmm7,%%tmm4,%%tmm2\n" instruction " %%tmm7,%%tmm5,%%tmm3\n" ::)

double amx_bf16_rounds(std::size_t rounds) {
  const TileConfig config;
  asm volatile("ldtilecfg %0" ::"m"(config));  // zeroes the tiles
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_FOUR_TILES("tdpbf16ps");
  asm volatile("tilerelease");
  return 4 * 2.0 * 16 * 16 * 32 * static_cast<double>(rounds);
}

double amx_int8_rounds(std::size_t rounds) {
  const TileConfig config;
  asm volatile("ldtilecfg %0" ::"m"(config));
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_FOUR_TILES("tdpbssd");
  asm volatile("tilerelease");
  return 4 * 2.0 * 16 * 16 * 64 * static_cast<double>(rounds);
}

#undef MORTISE_TWELVE
#undef MORTISE_FOUR_TILES

// CPUID leaf 7 reports AMX even where virtual machines hide the leaves 0x1D and 0x1E. The kernel decides whether it may
// be used.
void add_amx_units(std::vector<Unit>& units) {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx >> 24 & 1) == 0) return;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return;
  if ((edx >> 22 & 1) != 0) units.push_back(Unit::kAmxBf16);
  if ((edx >> 25 & 1) != 0) units.push_back(Unit::kAmxInt8);
}

#elif defined(__aarch64__)

// A vector of compiler's making (GCC extension), for any type of elements.
using NeonRegister = std::uint8_t __attribute__((vector_size(16)));

#define MORTISE_TWELVE(instruction, to, from)                                                                        \
  asm volatile(MORTISE_ONE(instruction, "0", to, from) MORTISE_ONE(instruction, "1", to, from)                       \
                   MORTISE_ONE(instruction, "2", to, from) MORTISE_ONE(instruction, "3", to, from)                   \
                       MORTISE_ONE(instruction, "4", to, from) MORTISE_ONE(instruction, "5", to, from)               \
                           MORTISE_ONE(instruction, "6", to, from) MORTISE_ONE(instruction, "7", to, from)           \
                               MORTISE_ONE(instruction, "8", to, from) MORTISE_ONE(instruction, "9", to, from)       \
                                   MORTISE_ONE(instruction, "10", to, from) MORTISE_ONE(instruction, "11", to, from) \
               : "+w"(c[0]), "+w"(c[1]), "+w"(c[2]), "+w"(c[3]), "+w"(c[4]), "+w"(c[5]), "+w"(c[6]), "+w"(c[7]),     \
                 "+w"(c[8]), "+w"(c[9]), "+w"(c[10]), "+w"(c[11])                                                    \
               : "w"(x))
#define MORTISE_ONE(instruction, i, to, from) instruction " %" i "." to ",%12." from ",%12." from "\n"

double neon_fma_rounds(std::size_t rounds) {
  NeonRegister c[12] = {}, x = {};
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("fmla", "4s", "4s");
  return 12 * 2.0 * 4 * static_cast<double>(rounds);
}

// Sums bytes to 16 bits, as on AVX2.
double neon_int8_rounds(std::size_t rounds) {
  NeonRegister c[12] = {}, x = {};
  for (std::size_t i = 0; i < rounds; ++i) MORTISE_TWELVE("smlal", "8h", "8b");
  return 12 * 2.0 * 8 * static_cast<double>(rounds);
}

#undef MORTISE_ONE
#undef MORTISE_TWELVE

#endif

std::vector<Unit> find_units() {
  std::vector<Unit> units;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) units.push_back(Unit::kAvx2Fma);
  if (__builtin_cpu_supports("avx2")) units.push_back(Unit::kAvx2Int8);
  if (__builtin_cpu_supports("avx512f")) units.push_back(Unit::kAvx512Fma);
  if (__builtin_cpu_supports("avx512bf16")) units.push_back(Unit::kAvx512Bf16);
  if (__builtin_cpu_supports("avx512vnni")) units.push_back(Unit::kAvx512Int8);
  add_amx_units(units);
#elif defined(__aarch64__)
  units = {Unit::kNeonFma, Unit::kNeonInt8};
#endif
  if (units.empty()) units.push_back(Unit::kF32);
  return units;
}

}  // namespace

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kF32:
      return "f32 multiply and add";
    case Unit::kNeonFma:
      return "NEON f32 FMA";
    case Unit::kNeonInt8:
      return "NEON int8";
    case Unit::kAvx2Fma:
      return "AVX2 f32 FMA";
    case Unit::kAvx2Int8:
      return "AVX2 int8";
    case Unit::kAvx512Fma:
      return "AVX-512 f32 FMA";
    case Unit::kAvx512Bf16:
      return "AVX-512 bf16";
    case Unit::kAvx512Int8:
      return "AVX-512 int8";
    case Unit::kAmxBf16:
      return "AMX bf16";
    case Unit::kAmxInt8:
      return "AMX int8";
  }
  return "?";
}

const std::vector<Unit>& available_units() {
  static const std::vector<Unit> units = find_units();
  return units;
}

double run_unit(Unit unit, std::size_t rounds) {
#if defined(__x86_64__)
  if (unit == Unit::kAvx2Fma) return avx2_fma_rounds(rounds);
  if (unit == Unit::kAvx2Int8) return avx2_int8_rounds(rounds);
  if (unit == Unit::kAvx512Fma) return avx512_fma_rounds(rounds);
  if (unit == Unit::kAvx512Bf16) return avx512_bf16_rounds(rounds);
  if (unit == Unit::kAvx512Int8) return avx512_int8_rounds(rounds);
  if (unit == Unit::kAmxBf16) return amx_bf16_rounds(rounds);
  if (unit == Unit::kAmxInt8) return amx_int8_rounds(rounds);
#elif defined(__aarch64__)
  if (unit == Unit::kNeonFma) return neon_fma_rounds(rounds);
  if (unit == Unit::kNeonInt8) return neon_int8_rounds(rounds);
#endif
  (void)unit;
  return f32_rounds(rounds);
}

Unit faster_of(Unit a, Unit b) {
  const auto operations_per_s = [](Unit unit) {
    double most = 0;
    for (int run = 0; run < 8; ++run) {
      const auto start = std::chrono::steady_clock::now();
      const double operations = run_unit(unit, 1000);
      most =
          std::max(most, operations / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return most;
  };
  return operations_per_s(a) > operations_per_s(b) ? a : b;
}

}  // namespace mortise::bench
