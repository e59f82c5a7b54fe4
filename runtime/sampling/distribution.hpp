// runtime/sampling/distribution.hpp: the distribution that a row's token is drawn from, after all sampling parameters.
// A device's `sample` draws from it without computing it; rejection sampling needs it.
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

// The weight of each token, by the steps of docs/numerics.md, "Sampling", from edits to top_p. Its share of their sum
// is its probability. All are 0 if no token is left. REQUIRES: temperature > 0, and no denormal.
std::vector<std::uint64_t> target_weights(std::span<const float> logits, const RowSampling& row);

}  // namespace mortise
