#include "kernels/cpu/reference/verify_draft.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/sample_token.hpp"

namespace mortise::cpu::reference {
namespace {

using Integers = std::vector<std::uint64_t>;

double uniform(const SampleRow& row, std::uint32_t purpose) {
  const std::uint32_t counter[4] = {static_cast<std::uint32_t>(row.position),
                                    static_cast<std::uint32_t>(row.position >> 32), purpose, 1};
  std::uint32_t r[4];
  philox(counter, row.key, r);
  const std::uint64_t bits = (static_cast<std::uint64_t>(r[0] / 64) << 26) + r[1] / 64;
  return (static_cast<double>(bits) + 0.5) / 0x1p52;
}

std::uint64_t nearest(double x) {
  return static_cast<std::uint64_t>(std::nearbyint(x));
}

std::uint64_t sum(const Integers& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

std::vector<double> shares(const Integers& weights) {
  const auto total = static_cast<double>(sum(weights));
  std::vector<double> result;
  for (const std::uint64_t weight : weights) result.push_back(static_cast<double>(weight) / total);
  return result;
}

Integers target_weights(const SampleRow& row) {
  Integers weights(row.vocab_size, 0);
  const Sampled sampled = sample_token(row);
  for (std::size_t i = 0; i < sampled.left.size(); ++i) {
    weights[static_cast<std::size_t>(sampled.left[i])] = sampled.weights[i];
  }
  return weights;
}

Integers draft_weights(const SampleRow& row, std::int32_t draft, const float* distribution) {
  Integers weights(row.vocab_size, 0);
  const float largest = distribution == nullptr ? 0.0f : *std::max_element(distribution, distribution + row.vocab_size);
  if (!(largest > 0)) {
    weights[static_cast<std::size_t>(draft)] = 1;
    return weights;
  }
  for (std::size_t i = 0; i < row.vocab_size; ++i) {
    weights[i] = nearest(static_cast<double>(distribution[i]) / static_cast<double>(largest) * 0x1p32);
  }
  return weights;
}

}  // namespace

std::int32_t verify_draft(const SampleRow& row, std::int32_t token, std::int32_t draft, const float* distribution) {
  if (!(row.temperature > 0)) return token;
  const Integers weights = target_weights(row);
  if (sum(weights) == 0) return -1;
  const auto at = static_cast<std::size_t>(draft);
  const std::vector<double> p = shares(weights), q = shares(draft_weights(row, draft, distribution));
  if (uniform(row, 0) * q[at] < p[at]) return draft;
  Integers excess(row.vocab_size, 0);
  for (std::size_t i = 0; i < excess.size(); ++i) excess[i] = nearest(std::max(p[i] - q[i], 0.0) * 0x1p60);
  const std::uint64_t total = sum(excess);
  if (total == 0) return p[at] > 0 ? draft : -1;
  const auto wanted = std::min(static_cast<std::uint64_t>(uniform(row, 1) * static_cast<double>(total)), total - 1);
  std::partial_sum(excess.begin(), excess.end(), excess.begin());
  return static_cast<std::int32_t>(std::upper_bound(excess.begin(), excess.end(), wanted) - excess.begin());
}

}  // namespace mortise::cpu::reference
