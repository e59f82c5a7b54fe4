// runtime/sampling/philox.hpp: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): random numbers as a function of a
// key and a counter, so that a draw does not depend on earlier draws.
#pragma once

#include <array>
#include <cstdint>

namespace mortise {

constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  std::array<std::uint32_t, 2> k = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace mortise
