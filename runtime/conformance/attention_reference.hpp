// runtime/conformance/attention_reference.hpp: what an attention should compute, row by row on the host.
#pragma once

#include "conformance/attention_scene.hpp"
#include "mortise/numerics.h"

namespace mortise::conformance {

// The numerics ids whose bits exact_rows() has, in either order.
inline constexpr const char* kSpanNumerics[] = {"attention-span256/1", "attention-span256-pairs/1"};

// Returns the outputs of all rows of the sequence in the arithmetic of mortise/numerics.h, which specifies every bit.
OutputRows exact_rows(const AttentionScene& scene, std::size_t sequence, mortise_sum_order order);

// Throws CaseFailed if an output is further from attention in double than rounding explains.
void expect_near(const AttentionScene& scene, std::size_t sequence, const OutputRows& found);

}  // namespace mortise::conformance
