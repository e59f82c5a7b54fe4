#include "kernels/cpu/isa.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mortise::cpu {
namespace {

constexpr Isa kAll[] = {Isa::kPortable, Isa::kNeon, Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

#if defined(__x86_64__)

// Bits of XCR0, which says which registers the operating system saves.
constexpr std::uint64_t kYmmState = 0x6;
constexpr std::uint64_t kZmmState = 0xe6;
constexpr std::uint64_t kTileState = 0x60000;

std::uint64_t xcr0() {
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

bool has(std::uint32_t word, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(), [=](int bit) { return (word >> bit & 1u) != 0; });
}

// Linux grants tile state (18 kB a thread) only to processes that request it.
bool request_tile_data() {
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

// Does not read leaves 0x1D and 0x1E, which describe AMX: some hypervisors hide them although AMX works.
std::vector<Isa> detect() {
  std::vector<Isa> found = {Isa::kPortable};
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const bool xsave = has(c, {27});
  const bool fma = has(c, {12, 29});  // FMA, and F16C, which every processor with AVX2 has
  if (!xsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const std::uint64_t state = xcr0();
  if (!fma || !has(b, {5}) || (state & kYmmState) != kYmmState) return found;  // 5: AVX2
  found.push_back(Isa::kAvx2);
  if (!has(b, {16, 17, 30, 31}) || (state & kZmmState) != kZmmState) return found;  // AVX-512 F, DQ, BW, VL
  found.push_back(Isa::kAvx512);
  const bool vnni = has(c, {11});
  const bool amx = has(d, {22, 24, 25});  // AMX BF16, TILE, INT8
  if (!vnni || !amx || (state & kTileState) != kTileState) return found;
  if (request_tile_data()) found.push_back(Isa::kAmx);
  return found;
}

bool has_avx512() {
  const auto& found = available_isas();
  return std::find(found.begin(), found.end(), Isa::kAvx512) != found.end();
}
bool detect_vnni() {
  std::uint32_t a, b, c, d;
  return has_avx512() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(c, {11});
}
bool detect_avx512_bf16() {
  std::uint32_t a, b, c, d;
  return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, {5});
}

#elif defined(__aarch64__)

std::vector<Isa> detect() {
  return {Isa::kPortable, Isa::kNeon};  // a part of the architecture
}
bool detect_vnni() {
  return false;
}
bool detect_avx512_bf16() {
  return false;
}

#else

std::vector<Isa> detect() {
  return {Isa::kPortable};
}
bool detect_vnni() {
  return false;
}
bool detect_avx512_bf16() {
  return false;
}

#endif

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kNeon:
      return "neon";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> found = detect();
  return found;
}

bool has_vnni() {
  static const bool found = detect_vnni();
  return found;
}

bool has_avx512_bf16() {
  static const bool found = detect_avx512_bf16();
  return found;
}

std::optional<Isa> choose_isa(const char* forced, std::string& error) {
  const std::vector<Isa>& found = available_isas();
  if (forced == nullptr || *forced == '\0') return found.back();
  std::string names;
  for (Isa isa : found) {
    if (std::strcmp(forced, isa_name(isa)) == 0) return isa;
    names += std::string(names.empty() ? "" : ", ") + isa_name(isa);
  }
  const bool known =
      std::any_of(std::begin(kAll), std::end(kAll), [=](Isa isa) { return std::strcmp(forced, isa_name(isa)) == 0; });
  error = std::string("MORTISE_ISA=") + forced + ": " +
          (known ? "this machine does not have that instruction set" : "no such instruction set") + "; it has " +
          names + "; leave MORTISE_ISA unset to use " + isa_name(found.back());
  return std::nullopt;
}

#if defined(__x86_64__)

DenormalsOff::DenormalsOff() : saved_(_mm_getcsr()) {
  constexpr std::uint32_t kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kMaskAll = 0x1f80;
  _mm_setcsr(kFlushToZero | kDenormalsAreZero | kMaskAll);
}
DenormalsOff::~DenormalsOff() {
  _mm_setcsr(saved_);
}

#elif defined(__aarch64__)

// The upper half of FPCR has no bits.
DenormalsOff::DenormalsOff() {
  std::uint64_t saved;
  constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;  // of operands, too
  asm volatile("mrs %0, fpcr" : "=r"(saved));
  asm volatile("msr fpcr, %0" ::"r"(kFlushToZero));
  saved_ = static_cast<std::uint32_t>(saved);
}
DenormalsOff::~DenormalsOff() {
  asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{saved_}));
}

#else  // soft_float.hpp flushes by hand

DenormalsOff::DenormalsOff() : saved_(0) {}
DenormalsOff::~DenormalsOff() {}

#endif

}  // namespace mortise::cpu
