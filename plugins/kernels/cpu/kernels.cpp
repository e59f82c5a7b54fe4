#include "kernels/cpu/kernels.hpp"

namespace mortise::cpu {

namespace isa_portable {
extern const KernelTable kKernelTable;
}
#if defined(__x86_64__)
namespace isa_avx2 {
extern const KernelTable kKernelTable;
}
namespace isa_avx512 {
extern const KernelTable kKernelTable;
extern const KernelTable kVnniKernelTable;
extern const KernelTable kAmxKernelTable;
}  // namespace isa_avx512
#endif

const KernelTable& kernels(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
      break;
    case Isa::kAvx2:
      return isa_avx2::kKernelTable;
    case Isa::kAvx512:
      return has_vnni() ? isa_avx512::kVnniKernelTable : isa_avx512::kKernelTable;
    case Isa::kAmx:
      return isa_avx512::kAmxKernelTable;
  }
#endif
  (void)isa;
  return isa_portable::kKernelTable;
}

}  // namespace mortise::cpu
