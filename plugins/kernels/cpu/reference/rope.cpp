#include "kernels/cpu/reference/rope.hpp"

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

float rounded(bool bf16, float x) {
  return bf16 ? from_bf16(to_bf16(x)) : canonical_nan(x);
}

}  // namespace

void rope(bool bf16, bool interleaved, float* x, const float* cos, const float* sin, std::size_t rotary_dim) {
  for (std::size_t i = 0; i < rotary_dim / 2; ++i) {
    float& x0 = interleaved ? x[2 * i] : x[i];
    float& x1 = interleaved ? x[2 * i + 1] : x[i + rotary_dim / 2];
    const float a = x0 * cos[i], b = x1 * sin[i], c = x1 * cos[i], d = x0 * sin[i];
    x0 = rounded(bf16, a - b);
    x1 = rounded(bf16, c + d);
  }
}

}  // namespace mortise::cpu::reference
