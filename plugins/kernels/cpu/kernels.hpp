// plugins/kernels/cpu/kernels.hpp: finds the kernels of an instruction set. All instruction sets give the same bits. A
// kernel works on plain pointers and a range of rows or columns. It runs on the calling thread, allocates nothing and
// keeps nothing. The caller gives ranges to threads; no such division changes a bit.
// REQUIRES for every kernel: the calling thread holds a DenormalsOff (isa.hpp).
#pragma once

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/kernel_table.hpp"

namespace mortise::cpu {

// REQUIRES: available_isas() contains `isa`.
const KernelTable& kernels(Isa isa);

}  // namespace mortise::cpu
