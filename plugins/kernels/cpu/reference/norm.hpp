// plugins/kernels/cpu/reference/norm.hpp: the scalar form of rows/norm.hpp, one row at a time. T is Bf16 or float.
// REQUIRES: DenormalsOff.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

// One row of n elements. `residual` and `bias` may be null.
template <class T>
void rms_norm(const T* x, T* residual, const T* weight, T* out, std::size_t n, float eps);
template <class T>
void layer_norm(const T* x, T* residual, const T* weight, const T* bias, T* out, std::size_t n, float eps);

}  // namespace mortise::cpu::reference
