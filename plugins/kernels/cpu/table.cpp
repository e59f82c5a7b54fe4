// The kernels of one instruction set, gathered; compiled once for each.
#include "kernels/cpu/kernel_table.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {

extern const ElementwiseKernels kElementwiseKernels;
extern const HeadKernels kHeadKernels;
extern const SampleKernels kSampleKernels;

extern const KernelTable kKernelTable;
constinit const KernelTable kKernelTable = {
    .elementwise = kElementwiseKernels,
    .head = kHeadKernels,
    .sampling = kSampleKernels,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
