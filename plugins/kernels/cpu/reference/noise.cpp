#include "kernels/cpu/reference/noise.hpp"

#include "kernels/cpu/reference/math.hpp"

namespace mortise::cpu::reference {

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
    return -log(-log1p(-v));
  }
  const float u = (static_cast<float>(0xffffffffu - r) + 0.5f) * 0x1p-32f;  // 1 - v
  return -log(-log(u));
}

float noise(std::uint64_t key, std::uint64_t position, std::int32_t token) {
  const std::uint32_t counter[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                    static_cast<std::uint32_t>(token), 0};
  std::uint32_t r[4];
  philox(counter, key, r);
  return gumbel(r[0]);
}

}  // namespace mortise::cpu::reference
