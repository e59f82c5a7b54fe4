// isa.hpp: which instruction sets this machine has, which one to use, and the state of the FPU that kernels require.
// All instruction sets give the same bits (docs/numerics.md): the choice is about speed alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mortise::cpu {

// In ascending order of preference.
enum class Isa { kPortable, kAvx2, kAvx512, kAmx };

const char* isa_name(Isa isa);  // "portable", "avx2", "avx512", "amx": what MORTISE_ISA takes

// What the machine has and the operating system lets this process use; kPortable is always there. The first call asks
// the kernel for permission to use the AMX tiles, which holds for all threads of the process.
const std::vector<Isa>& available_isas();

// Whether the machine has AVX-512 with VNNI, which the integer kernels of kAvx512 then use. All with AMX have it.
bool has_vnni();

// The best one, or the one that `forced` names. Null or empty: not forced. An unknown name, or one that this machine
// lacks, gives nullopt and a text in `error` that names what there is.
std::optional<Isa> choose_isa(const char* forced, std::string& error);

// choose_isa with the environment's MORTISE_ISA.
std::optional<Isa> choose_isa_from_environment(std::string& error);

// Denormals off (flush to zero and denormals as zero) and rounding to nearest even for the calling thread, until the
// end of the scope. Whoever calls a kernel holds one: the AMX unit works like this by itself, so everything else does
// too.
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
