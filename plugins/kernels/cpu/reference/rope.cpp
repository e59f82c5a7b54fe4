#include "kernels/cpu/reference/rope.hpp"

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

template <class T>
float rounded(float x) {
  return sizeof(T) == sizeof(Bf16) ? from_bf16(to_bf16(x)) : canonical_nan(x);
}

}  // namespace

template <class T>
void rope(RopePairs pairs, float* x, const float* cos, const float* sin, std::size_t rotary_dim) {
  const bool interleaved = pairs == RopePairs::kInterleaved;
  for (std::size_t i = 0; i < rotary_dim / 2; ++i) {
    float& x0 = interleaved ? x[2 * i] : x[i];
    float& x1 = interleaved ? x[2 * i + 1] : x[i + rotary_dim / 2];
    const float a = soft_product(x0, cos[i]), b = soft_product(x1, sin[i]);
    const float c = soft_product(x1, cos[i]), d = soft_product(x0, sin[i]);
    x0 = rounded<T>(a - b);
    x1 = rounded<T>(c + d);
  }
}

template void rope<Bf16>(RopePairs, float*, const float*, const float*, std::size_t);
template void rope<float>(RopePairs, float*, const float*, const float*, std::size_t);

}  // namespace mortise::cpu::reference
