// probe_of_isa.hpp: the probe of an instruction set that the machine has.
#pragma once

#include "kernels/cpu/isa.hpp"
#include "probe.hpp"

namespace mortise::cpu {

namespace isa_portable {
extern const Probe kProbe;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const Probe kProbe;
}
namespace isa_avx512 {
extern const Probe kProbe;
}
#elif defined(__aarch64__)
namespace isa_neon {
extern const Probe kProbe;
}
#endif

inline const Probe& probe(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512 || isa == Isa::kAmx) return isa_avx512::kProbe;
  if (isa == Isa::kAvx2) return isa_avx2::kProbe;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return isa_neon::kProbe;
#endif
  (void)isa;
  return isa_portable::kProbe;
}

}  // namespace mortise::cpu
