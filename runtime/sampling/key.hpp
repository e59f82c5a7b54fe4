// runtime/sampling/key.hpp: the key of a choice's noise. Noise is a function of (key, position, token) instead of a
// stream, so a token does not depend on what was drawn before it (docs/numerics.md, "Sampling").
#pragma once

#include <cstdint>

namespace mortise {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): every bit of the input reaches every bit of the output.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t noise_key(std::uint64_t seed, std::uint32_t choice) {
  return mix64(mix64(seed) ^ choice);
}

}  // namespace mortise
