// plugins/kernels/cpu/reference/sample_token.hpp: the scalar form of head/sample_token.hpp: every filter reads the
// whole vocabulary, and the order comes from a full sort.
// REQUIRES: DenormalsOff.
#pragma once

#include <vector>

#include "kernels/cpu/head/sample_token.hpp"

namespace mortise::cpu::reference {

struct Sampled {
  std::int32_t token;
  float logprob;
  std::vector<std::int32_t> left;      // the tokens that remained, in the order (logit descending, id ascending)
  std::vector<std::uint64_t> weights;  // of these tokens; empty for arg max
};

Sampled sample_token(const SampleRow& row);

}  // namespace mortise::cpu::reference
