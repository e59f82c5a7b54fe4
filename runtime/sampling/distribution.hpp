// runtime/sampling/distribution.hpp: the probabilities with which a row's token is drawn, after all sampling
// parameters. A device's `sample` draws from them without computing them; rejection sampling needs them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/edits.hpp"

namespace mortise {

// The sampling arguments of one row, as in mortise_sample_args. Not owned.
struct RowSampling {
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::int32_t top_k = 0;
  std::span<const LogitEdit> edits;
  std::span<const std::uint32_t> allowed;  // token t is bit t % 32 of allowed[t / 32]; empty: all
};

// The probability of each token, by the steps of docs/numerics.md, "Sampling", from edits to top_p. The sum is 1 up to
// rounding, or 0 if no token is left.
// REQUIRES: temperature > 0.
std::vector<double> target_distribution(std::span<const float> logits, const RowSampling& row);

}  // namespace mortise
