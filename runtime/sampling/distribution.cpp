#include "sampling/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mortise {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

float clean(float value) {
  return std::isnan(value) ? kNever : std::min(value, kLargest);
}

// Applies edits, the allowed set and the temperature. The score is -infinity for tokens that cannot be drawn.
std::vector<float> scores_of(std::span<const float> logits, const RowSampling& row) {
  std::vector<float> scores(logits.begin(), logits.end());
  for (const LogitEdit& edit : row.edits) {
    float& l = scores[static_cast<std::size_t>(edit.token)];
    l += edit.bias;
    l = l > 0 ? l / edit.repetition : l * edit.repetition;
    l -= edit.subtract;
  }
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const bool allowed = row.allowed.empty() || (row.allowed[id / 32] >> (id % 32) & 1u) != 0;
    const float l = allowed ? clean(scores[id]) : kNever;
    scores[id] = l == kNever ? kNever : clean(l / row.temperature);
  }
  return scores;
}

// Keeps the shortest prefix of `left`, which is sorted, whose integer weights reach the share `top_p` of their sum.
void keep_top_p(const std::vector<float>& scores, float top_p, std::vector<std::int32_t>& left) {
  constexpr double kOne = 4294967296.0;  // 2^32
  const double largest = scores[static_cast<std::size_t>(left.front())];
  std::vector<std::uint64_t> weights;
  weights.reserve(left.size());
  std::uint64_t all = 0;
  for (std::int32_t id : left) {
    const double weight = std::nearbyint(std::exp(scores[static_cast<std::size_t>(id)] - largest) * kOne);
    weights.push_back(static_cast<std::uint64_t>(weight));
    all += weights.back();
  }
  const auto share = static_cast<std::uint64_t>(std::nearbyint(std::max(static_cast<double>(top_p), 0.0) * kOne));
  // ceil(share * all / 2^32) without an overflow of the product: all is at most vocabulary * 2^32.
  const std::uint64_t high = (all >> 32) * share, low = (all & 0xffffffffu) * share;
  const std::uint64_t need = high + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  while (kept < left.size() && (kept == 0 || sum < need)) sum += weights[kept++];
  left.resize(kept);
}

}  // namespace

std::vector<double> target_distribution(std::span<const float> logits, const RowSampling& row) {
  const std::vector<float> scores = scores_of(logits, row);
  std::vector<double> probabilities(scores.size(), 0.0);
  const float largest = *std::max_element(scores.begin(), scores.end());
  if (largest == kNever) return probabilities;

  const float bound =
      row.min_p > 0 ? largest + static_cast<float>(std::log(std::min(static_cast<double>(row.min_p), 1.0))) : kNever;
  std::vector<std::int32_t> left;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] != kNever && scores[id] >= bound) left.push_back(static_cast<std::int32_t>(id));
  }
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (row.top_k > 0 && static_cast<std::size_t>(row.top_k) < left.size()) {
    std::nth_element(left.begin(), left.begin() + row.top_k, left.end(), before);
    left.resize(static_cast<std::size_t>(row.top_k));
  }
  if (row.top_p < 1) {
    std::sort(left.begin(), left.end(), before);
    keep_top_p(scores, row.top_p, left);
  }
  double sum = 0;
  for (std::int32_t id : left) {
    double& p = probabilities[static_cast<std::size_t>(id)];
    p = std::exp(static_cast<double>(scores[static_cast<std::size_t>(id)]) - static_cast<double>(largest));
    sum += p;
  }
  for (std::int32_t id : left) probabilities[static_cast<std::size_t>(id)] /= sum;
  return probabilities;
}

}  // namespace mortise
