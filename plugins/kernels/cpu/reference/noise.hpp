// plugins/kernels/cpu/reference/noise.hpp: the scalar form of head/noise.hpp and head/philox.hpp, one token at a time.
// REQUIRES: DenormalsOff.
#pragma once

#include <cstdint>

namespace mortise::cpu::reference {

// Philox4x32-10: all four output words for a counter and a key.
void philox(const std::uint32_t counter[4], std::uint64_t key, std::uint32_t out[4]);

// -log(-log1p(-v)), v = (r + 0.5) 2^-32.
float gumbel(std::uint32_t r);

// The noise of a token: gumbel of the first Philox word for the counter (position low, position high, token, 0).
float noise(std::uint64_t key, std::uint64_t position, std::int32_t token);

}  // namespace mortise::cpu::reference
