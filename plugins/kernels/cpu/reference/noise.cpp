#include "kernels/cpu/reference/noise.hpp"

#include <cmath>
#include <limits>

#include "kernels/cpu/soft_float.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float nearest_integer(float x) {
  const double shifted = static_cast<double>(x) + 0x1.8p52;
  return static_cast<float>(shifted - 0x1.8p52);
}

}  // namespace

void philox(const std::uint32_t counter[4], std::uint64_t key, std::uint32_t out[4]) {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

float gumbel(std::uint32_t r) {
  if (r < 0x80000000u) {
    const float v = (static_cast<float>(r) + 0.5f) * 0x1p-32f;
    return -log_reference(-log1p_reference(-v));
  }
  const float u = (static_cast<float>(0xffffffffu - r) + 0.5f) * 0x1p-32f;  // 1 - v
  return -log_reference(-log_reference(u));
}

float noise(std::uint64_t key, std::uint64_t position, std::int32_t token) {
  const std::uint32_t counter[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                    static_cast<std::uint32_t>(token), 0};
  std::uint32_t r[4];
  philox(counter, key, r);
  return gumbel(r[0]);
}

float exp_reference(float x) {
  constexpr float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                         0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  const float t = x * 0x1.715476p+0f;
  if (t != t) return t;
  if (t <= -126.0f) return 0.0f;
  if (t >= 128.0f) return kInfinity;
  const float n = nearest_integer(t);
  const float f = soft_fma(x, 0x1.4ae0c0p-26f, soft_fma(x, 0x1.715476p+0f, -n));
  float p = c[5];
  for (int i = 4; i >= 0; --i) p = soft_fma(p, f, c[i]);
  return std::ldexp(soft_fma(f, p, 1.0f), static_cast<int>(n));
}

float log_reference(float x) {
  constexpr float c[] = {0x1.555548p-2f,  -0x1.000006p-2f, 0x1.99a4b6p-3f,  -0x1.555c4ep-3f, 0x1.233768p-3f,
                         -0x1.fc2208p-4f, 0x1.e6f06cp-4f,  -0x1.de3c14p-4f, 0x1.1457a2p-4f};
  if (x != x || x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0) return -kInfinity;
  if (x == kInfinity) return x;
  const std::int32_t exponent = static_cast<std::int32_t>(bit_cast_to<std::uint32_t>(x) - 0x3f3504f3u) >> 23;
  const float e = static_cast<float>(exponent);
  const float f = std::ldexp(x, -exponent) - 1.0f;
  const float z = f * f;
  float r = c[8];
  for (int i = 7; i >= 0; --i) r = soft_fma(r, f, c[i]);
  r = f * z * r;
  r = soft_fma(e, -0x1.bd0106p-13f, r);
  r = soft_fma(-0.5f, z, r);
  return soft_fma(e, 0x1.63p-1f, f + r);
}

float log1p_reference(float x) {
  const float u = x + 1.0f;
  const float lost = x - (u - 1.0f);
  if (u == 0) return -kInfinity;
  if (x == kInfinity) return x;
  return log_reference(u) + lost / u;
}

}  // namespace mortise::cpu::reference
