// runtime/conformance/attention_draws.hpp: random inputs, checks and required capabilities that the attention cases
// share.
#pragma once

#include <cstdint>
#include <vector>

#include "conformance/attention_scene.hpp"
#include "conformance/subject.hpp"

namespace mortise::conformance {

std::vector<std::int32_t> draw_tokens(Subject& subject, std::int32_t count);
// Returns a number from first to last.
std::int32_t draw_between(Subject& subject, std::int32_t first, std::int32_t last);

// Throws CaseFailed if the outputs are not those of the subject's numerics id, or not near attention in double where
// mortise/numerics.h does not specify its bits.
void expect_right(Subject& subject, const AttentionScene& scene, std::size_t sequence, const OutputRows& found);

// Throws NotApplicable if the subject lacks the capability.
void require_capability(Subject& subject, std::uint64_t capability, const char* name);

}  // namespace mortise::conformance
