// kernel_table.hpp: what an instruction set offers: one group of function pointers per family of kernels.
#pragma once

#include "kernels/cpu/elementwise.hpp"

namespace mortise::cpu {

// References, not copies: the tables are then constants of the file. Initialising them by code at load time would run
// AVX-512 instructions on machines without.
struct KernelTable {
  const ElementwiseKernels& elementwise;
};

}  // namespace mortise::cpu
