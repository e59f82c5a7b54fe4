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
// Pairs are computed by exact_dot_kernels() if `isa` is kAvx512 or kAmx and they are faster than FMA.
const Bf16Kernels& bf16_kernels(Isa isa, SumOrder order);

// The kernels for pairs with VDPBF16PS; null if the machine lacks it, or if the instruction gives other bits than FMA
// (dot_check.cpp). The first call compares them, which takes less than a millisecond.
const Bf16Kernels* exact_dot_kernels();

// The order in which this machine is fastest: pairs if it has AVX512-BF16 and no AMX, otherwise tiles. Asks the machine
// and not the instruction set that is in use, so that forcing one changes no bit.
SumOrder preferred_order();

}  // namespace mortise::cpu
