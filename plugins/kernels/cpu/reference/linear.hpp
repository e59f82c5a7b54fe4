// plugins/kernels/cpu/reference/linear.hpp: the scalar form of linear/linear.hpp, which linear/linear.cpp,
// linear/pairs.cpp and linear/amx.cpp equal bit by bit.
//
//   acc = 0;  for each depth tile of 32 k, in order, zeros after K:
//     a = 0; for k = 0, 2, .. 30: a = fma(x[m,k], w[n,k], a)
//     b = 0; for k = 1, 3, .. 31: b = fma(x[m,k], w[n,k], b)
//     acc = acc + (a + b)
//   in pairs:
//     for each pair, in order: acc = fma(x[m,k+1], w[n,k+1], acc); acc = fma(x[m,k], w[n,k], acc)    k = 0, 2, .. 30
//   y[m,n] = bias is null ? acc : acc + bias[n]
// x [m, k], w [n, k] (not packed) and y [m, n] are dense and row-major. y has the canonical NaN.
// REQUIRES: DenormalsOff.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu::reference {

void linear_bf16(const Bf16* x, const Bf16* w, const float* bias, float* y, std::size_t m, std::size_t n,
                 std::size_t k);
void linear_bf16_pairs(const Bf16* x, const Bf16* w, const float* bias, float* y, std::size_t m, std::size_t n,
                       std::size_t k);
void linear_f32(const float* x, const float* w, const float* bias, float* y, std::size_t m, std::size_t n,
                std::size_t k);

}  // namespace mortise::cpu::reference
