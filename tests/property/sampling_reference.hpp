// tests/property/sampling_reference.hpp: what a request's parameters make of a row of logits, written again from the
// API's documentation in double precision, with a sort and sums of probabilities: nothing is shared with the kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.hpp"

namespace mortise::test {

// A row that draws: its logits, and what was before it.
struct ReferenceRow {
  std::span<const float> logits;
  std::span<const std::int32_t> prompt, generated;
  const std::vector<std::int32_t>& end_tokens;  // banned before min_tokens
  const std::vector<std::int32_t>* allowed;     // the guided set, ascending; null: all
  std::uint64_t key;                            // of the choice's noise
};

// Why a token may come out: it is the best of what the filters leave, or as good as the best up to rounding. `slack`
// widens or narrows the filters' bounds by that share, for tokens that lie on them.
struct ReferenceDraw {
  std::int32_t token = -1;
  std::vector<std::int32_t> left;           // after all filters
  double margin(std::int32_t other) const;  // by which `other` loses; infinite if it is not left

  std::vector<double> scores;  // of `left`
};
ReferenceDraw reference_draw(const ReferenceRow& row, const SamplingParams& params, double slack = 0);

// Standard Gumbel noise of a token, from Philox4x32-10 (Salmon et al., SC 2011).
double reference_noise(std::uint64_t key, std::uint64_t position, std::int32_t token);

}  // namespace mortise::test
