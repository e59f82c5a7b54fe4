#include "kernels/cpu/kernels.hpp"

namespace mortise::cpu {

namespace isa_portable {
extern const KernelTable kKernelTable;
extern const Bf16Kernels kTileKernels, kPairKernels;
}  // namespace isa_portable
#if defined(__x86_64__)
namespace isa_avx2 {
extern const KernelTable kKernelTable;
extern const Bf16Kernels kTileKernels, kPairKernels;
}  // namespace isa_avx2
namespace isa_avx512 {
extern const KernelTable kKernelTable, kVnniKernelTable, kAmxKernelTable;
extern const Bf16Kernels kTileKernels, kPairKernels, kDotKernels, kAmxTileKernels;
}  // namespace isa_avx512
namespace isa_avx512_bf16 {
bool dot_is_exact();
bool dot_is_fast();
}  // namespace isa_avx512_bf16
#elif defined(__aarch64__)
namespace isa_neon {
extern const KernelTable kKernelTable;
extern const Bf16Kernels kTileKernels, kPairKernels;
}  // namespace isa_neon
#endif

#if defined(__x86_64__)
namespace {

bool dot_is_useful() {
  static const bool useful = exact_dot_kernels() != nullptr && isa_avx512_bf16::dot_is_fast();
  return useful;
}

}  // namespace
#endif

const KernelTable& kernels(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
    case Isa::kNeon:
      break;
    case Isa::kAvx2:
      return isa_avx2::kKernelTable;
    case Isa::kAvx512:
      return has_vnni() ? isa_avx512::kVnniKernelTable : isa_avx512::kKernelTable;
    case Isa::kAmx:
      return isa_avx512::kAmxKernelTable;
  }
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return isa_neon::kKernelTable;
#endif
  (void)isa;
  return isa_portable::kKernelTable;
}

const Bf16Kernels& bf16_kernels(Isa isa, SumOrder order) {
  const bool pairs = order == SumOrder::kPairs;
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kPortable:
    case Isa::kNeon:
      break;
    case Isa::kAvx2:
      return pairs ? isa_avx2::kPairKernels : isa_avx2::kTileKernels;
    case Isa::kAvx512:
    case Isa::kAmx:
      if (pairs) return dot_is_useful() ? isa_avx512::kDotKernels : isa_avx512::kPairKernels;
      return isa == Isa::kAmx ? isa_avx512::kAmxTileKernels : isa_avx512::kTileKernels;
  }
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return pairs ? isa_neon::kPairKernels : isa_neon::kTileKernels;
#endif
  (void)isa;
  return pairs ? isa_portable::kPairKernels : isa_portable::kTileKernels;
}

const Bf16Kernels* exact_dot_kernels() {
#if defined(__x86_64__)
  static const bool exact = has_avx512_bf16() && [] {
    const DenormalsOff off;
    return isa_avx512_bf16::dot_is_exact();
  }();
  return exact ? &isa_avx512::kDotKernels : nullptr;
#else
  return nullptr;
#endif
}

SumOrder preferred_order() {
  return has_avx512_bf16() && available_isas().back() != Isa::kAmx ? SumOrder::kPairs : SumOrder::kTiles;
}

}  // namespace mortise::cpu
