// plugins/kernels/cpu/reference/verify_draft.hpp: the scalar form of rejection sampling (docs/numerics.md, "Rejection
// sampling"): the weights come from the filters of sample_token.hpp, and every sum runs over the whole vocabulary.
// REQUIRES: DenormalsOff.
#pragma once

#include <cstdint>

#include "kernels/cpu/head/sample_token.hpp"

namespace mortise::cpu::reference {

// Returns the draft or the recovered token, -1 if no token can be drawn; `token`, if the row's temperature is 0.
// `distribution` [vocab_size] is what the draft was drawn from; null: it was certain.
std::int32_t verify_draft(const SampleRow& row, std::int32_t token, std::int32_t draft, const float* distribution);

}  // namespace mortise::cpu::reference
