#include "kernels/cpu/reference/math.hpp"

#include <limits>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// c[0] + c[1] x + c[2] x^2 + .., evaluated from the highest power down.
template <int n>
float polynomial(float x, const float (&c)[n]) {
  float r = c[n - 1];
  for (int i = n - 2; i >= 0; --i) r = soft_fma(r, x, c[i]);
  return r;
}

// The nearest whole number, ties to even. REQUIRES: |x| < 2^51.
int nearest(float x) {
  return static_cast<int>((static_cast<double>(x) + 0x1.8p52) - 0x1.8p52);
}

// 2^n p. REQUIRES: the exponent of p plus n is that of a normal number.
float times_power_of_two(float p, int n) {
  return bit_cast_to<float>(bit_cast_to<std::uint32_t>(p) + (static_cast<std::uint32_t>(n) << 23));
}

// 2^(n + f)
float exp2_of_parts(int n, float f) {
  constexpr float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                         0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  return times_power_of_two(soft_fma(f, polynomial(f, c), 1.0f), n);
}

float with_sign_of(float magnitude, float x) {
  const std::uint32_t sign = bit_cast_to<std::uint32_t>(x) & 0x80000000u;
  return bit_cast_to<float>((bit_cast_to<std::uint32_t>(magnitude) & 0x7fffffffu) | sign);
}

float negative(float x) {
  return bit_cast_to<float>(bit_cast_to<std::uint32_t>(x) ^ 0x80000000u);
}

}  // namespace

float exp2(float x) {
  if (x != x) return kNan;
  if (x <= -126.0f) return 0.0f;
  if (x >= 128.0f) return kInfinity;
  const int n = nearest(x);
  return exp2_of_parts(n, x - static_cast<float>(n));
}

float exp(float x) {
  constexpr float kLog2e = 0x1.715476p+0f, kLog2eLow = 0x1.4ae0c0p-26f;
  const float t = soft_product(x, kLog2e);
  if (t != t) return kNan;
  if (t <= -126.0f) return 0.0f;
  if (t >= 128.0f) return kInfinity;
  const int n = nearest(t);
  const float f = soft_fma(x, kLog2e, -static_cast<float>(n));
  return exp2_of_parts(n, soft_fma(x, kLog2eLow, f));
}

float log(float x) {
  constexpr float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                         -0x1.fc2208p-4f, 0x1.e6f06cp-4f,  -0x1.de3c14p-4f, 0x1.1457a2p-4f};
  constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  if (x != x || x < 0) return kNan;
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return x;
  // x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2)
  const int exponent = static_cast<std::int32_t>(bit_cast_to<std::uint32_t>(x) - 0x3f3504f3u) >> 23;
  const float e = static_cast<float>(exponent);
  const float f = times_power_of_two(x, -exponent) - 1.0f;
  const float z = soft_product(f, f);
  float r = soft_product(soft_product(f, z), polynomial(f, c));
  r = soft_fma(e, kLn2Low, r);
  r = soft_fma(-0.5f, z, r);
  return soft_fma(e, kLn2High, f + r);
}

float log1p(float x) {
  const float u = x + 1.0f;
  const float lost = x - (u - 1.0f);
  if (x != x) return kNan;
  if (x == kInfinity) return x;
  if (u == 0) return -kInfinity;
  return log(u) + lost / u;
}

float tanh(float x) {
  constexpr float c[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.52269ap-6f, -0x1.75e1cap-8f};
  const float a = with_sign_of(x, 1.0f);
  if (a < 0.625f) {
    const float z = soft_product(x, x);
    return soft_fma(soft_product(z, x), polynomial(z, c), x);
  }
  return with_sign_of(1.0f - 2.0f / (exp(a + a) + 1.0f), x);
}

float erf(float x) {
  constexpr float c[] = {0x1.06eba8p-3f, -0x1.812742p-2f,  0x1.ce2df4p-4f, -0x1.b80cb4p-6f,
                         0x1.54b5e4p-8f, -0x1.a99ef4p-11f, 0x1.5ac328p-14f};
  constexpr float d[] = {-0x1.20efc4p+0f, -0x1.452d3ep-1f, -0x1.b36b78p-4f, 0x1.8641a6p-6f,
                         -0x1.e0f674p-9f, 0x1.596c4ap-12f, -0x1.8ef9aep-17f};
  if (x != x) return kNan;
  const float a = with_sign_of(x, 1.0f);
  if (a < 0.9375f) return soft_fma(x, polynomial(soft_product(x, x), c), x);
  const float t = a < 4.0f ? a : 4.0f;
  return with_sign_of(1.0f - exp(soft_product(t, polynomial(t, d))), x);
}

float sigmoid(float x) {
  return 1.0f / (1.0f + exp(negative(x)));
}

float silu(float x) {
  return x / (1.0f + exp(negative(x)));
}

float relu(float x) {
  return x <= 0 ? 0.0f : x;
}

float gelu(float x) {
  return soft_product(soft_product(x, 0.5f), 1.0f + erf(soft_product(x, 0x1.6a09e6p-1f)));
}

float gelu_tanh(float x) {
  const float cube = soft_product(soft_product(x, x), x);
  const float inner = soft_product(0x1.988454p-1f, soft_fma(0x1.6e4e26p-5f, cube, x));
  return soft_product(soft_product(x, 0.5f), 1.0f + tanh(inner));
}

}  // namespace mortise::cpu::reference
