// plugins/kernels/cpu/types.hpp: element types of kernels, for headers that do not depend on an instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::cpu {

using Bf16 = std::uint16_t;        // the bits of a bfloat16: the upper half of an f32
using F16 = std::uint16_t;         // the bits of an IEEE half
enum class Fp8 : std::uint8_t {};  // the bits of an E4M3 number

}  // namespace mortise::cpu
