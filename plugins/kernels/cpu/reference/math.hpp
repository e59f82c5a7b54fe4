// plugins/kernels/cpu/reference/math.hpp: the functions of vec/math.hpp for one number, operation by operation.
// vec/math.hpp equals them bit by bit.
// REQUIRES: DenormalsOff.
#pragma once

namespace mortise::cpu::reference {

float exp2(float x);
float exp(float x);
float log(float x);
float log1p(float x);
float tanh(float x);
float erf(float x);
float sigmoid(float x);
float silu(float x);
float relu(float x);
float gelu(float x);
float gelu_tanh(float x);

}  // namespace mortise::cpu::reference
