#include "kernels/cpu/reference/rope_reference.hpp"

#include <cstdint>
#include <cstring>

namespace mortise::cpu {
namespace {

float rounded(bool bf16, float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  if (x != x) {
    u = 0x7fc00000u;
  } else if (bf16) {
    u = (u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u;
  }
  std::memcpy(&x, &u, sizeof x);
  return x;
}

}  // namespace

void rope_reference(bool bf16, bool interleaved, float* x, const float* cos, const float* sin, std::size_t rotary_dim) {
  for (std::size_t i = 0; i < rotary_dim / 2; ++i) {
    float& x0 = interleaved ? x[2 * i] : x[i];
    float& x1 = interleaved ? x[2 * i + 1] : x[i + rotary_dim / 2];
    const float a = x0 * cos[i], b = x1 * sin[i], c = x1 * cos[i], d = x0 * sin[i];
    x0 = rounded(bf16, a - b);
    x1 = rounded(bf16, c + d);
  }
}

}  // namespace mortise::cpu
