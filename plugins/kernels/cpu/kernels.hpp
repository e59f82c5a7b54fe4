// kernels.hpp: finds the CPU kernels of an instruction set; all sets give the same bits.
// Every kernel works on plain pointers and takes a range of rows or columns: it runs on the calling thread, allocates
// nothing and keeps nothing, and the caller decides which thread does which range. No split of the work changes a bit.
// REQUIRES for every kernel: a DenormalsOff (isa.hpp) held by the calling thread.
#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/kernel_table.hpp"

namespace mortise::cpu {

// REQUIRES: available_isas() contains `isa`.
const KernelTable& kernels(Isa isa);

}  // namespace mortise::cpu
