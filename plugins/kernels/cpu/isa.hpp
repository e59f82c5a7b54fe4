// plugins/kernels/cpu/isa.hpp: the instruction sets of this machine, the choice of one of them, and the FPU state that
// kernels require. All instruction sets give the same bits (docs/numerics.md), so the choice only affects speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mortise::cpu {

// In ascending order of preference.
enum class Isa { kPortable, kNeon, kAvx2, kAvx512, kAmx };

const char* isa_name(Isa isa);  // "portable", "neon", "avx2", "avx512", "amx": the values of MORTISE_ISA

// The instruction sets that the machine has and the operating system lets this process use; kPortable is always among
// them. The first call asks Linux to allow AMX tiles, for all threads of the process.
const std::vector<Isa>& available_isas();

// Whether the machine has AVX-512 with VNNI. The integer kernels of kAvx512 then use it. Every machine with AMX has it.
bool has_vnni();

// Whether the machine has AVX-512 with BF16, and so VDPBF16PS. Every machine with AMX has it.
bool has_avx512_bf16();

// The instruction set named by `forced`, or the best if `forced` is null or empty. Returns nullopt for an unknown or
// unavailable name, with a text in `error` that lists the available ones.
std::optional<Isa> choose_isa(const char* forced, std::string& error);

// For the calling thread, until the end of the scope: flush-to-zero, denormals-as-zero and rounding to nearest even.
// Every caller of a kernel holds one. The AMX unit always works like this, so all other kernels must, too. AArch64
// flushes before it rounds, so a product or FMA that would round up to 2^-126 becomes zero; kernels there correct it
// (vec/soft_float.hpp). Invariant: saved_ is the state before the scope, which the destructor restores.
class DenormalsOff {
 public:
  DenormalsOff();
  ~DenormalsOff();
  DenormalsOff(const DenormalsOff&) = delete;
  DenormalsOff& operator=(const DenormalsOff&) = delete;

 private:
  std::uint32_t saved_;
};

}  // namespace mortise::cpu
