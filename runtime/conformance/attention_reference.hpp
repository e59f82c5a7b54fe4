// runtime/conformance/attention_reference.hpp: what an attention should compute, row by row on the host.
#pragma once

#include "conformance/attention_scene.hpp"

namespace mortise::conformance {

// The numerics id whose bits exact_rows() has.
inline constexpr const char* kSpanNumerics = "attention-span256/1";

// Returns the outputs of all rows of the sequence in the arithmetic of mortise/numerics.h, which specifies every bit.
OutputRows exact_rows(const AttentionScene& scene, std::size_t sequence);

// Throws CaseFailed if an output is further from attention in double than rounding explains.
void expect_near(const AttentionScene& scene, std::size_t sequence, const OutputRows& found);

}  // namespace mortise::conformance
