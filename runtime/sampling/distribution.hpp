// runtime/sampling/distribution.hpp: the distribution that a row's token is drawn from, after all sampling parameters,
// as numbers. A device's `sample` draws from it without ever writing it down; rejection sampling has to see it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/edits.hpp"

namespace mortise {

// The sampling arguments of one row, as mortise_sample_args has them. Borrowed.
struct RowSampling {
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  std::int32_t top_k = 0;
  std::span<const LogitEdit> edits;
  std::span<const std::uint32_t> allowed;  // token t is bit t % 32 of allowed[t / 32]; empty: all
};

// The probability of each token, by the steps of docs/numerics.md, "Sampling", from edits to top_p; the sum is 1 up to
// rounding, or 0 when no token is left. REQUIRES: temperature > 0.
std::vector<double> target_distribution(std::span<const float> logits, const RowSampling& row);

}  // namespace mortise
