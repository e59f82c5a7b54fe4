#include "sampling/distribution.hpp"

#include <algorithm>
#include <limits>

#include "mortise/numerics.h"
#include "sampling/denormals_off.hpp"

namespace mortise {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Applies edits, the allowed set and the temperature. The score is -infinity for tokens that cannot be drawn.
std::vector<float> scores_of(std::span<const float> logits, const RowSampling& row) {
  std::vector<float> scores(logits.begin(), logits.end());
  for (const LogitEdit& edit : row.edits) {
    float& l = scores[static_cast<std::size_t>(edit.token)];
    l += edit.bias;
    l = l > 0 ? l / edit.repetition : mortise_product(l, edit.repetition);
    l -= edit.subtract;
  }
  for (std::size_t id = 0; id < scores.size(); ++id) {
    const bool allowed = row.allowed.empty() || (row.allowed[id / 32] >> (id % 32) & 1u) != 0;
    const float l = allowed ? mortise_clean(scores[id]) : kNever;
    scores[id] = l == kNever ? kNever : mortise_clean(l / row.temperature);
  }
  return scores;
}

// round(exp(score - largest) * 2^32)
std::uint64_t weight_of(float score, float largest) {
  constexpr float kWeightlessBelow = -23.0f;  // below it the weight rounds to 0
  const float d = score - largest;
  return d < kWeightlessBelow ? 0 : mortise_weight_of(mortise_exp(d));
}

// Keeps the shortest prefix of `left`, which is sorted, whose weights reach the share `top_p` of their sum.
void keep_top_p(const std::vector<float>& scores, float top_p, std::vector<std::int32_t>& left) {
  const float largest = scores[static_cast<std::size_t>(left.front())];
  std::vector<std::uint64_t> weights;
  weights.reserve(left.size());
  std::uint64_t all = 0;
  for (std::int32_t id : left) {
    weights.push_back(weight_of(scores[static_cast<std::size_t>(id)], largest));
    all += weights.back();
  }
  const std::uint64_t share = top_p > 0 ? mortise_weight_of(top_p) : 0;
  // ceil(share * all / 2^32) without an overflow of the product: all is at most vocabulary * 2^32.
  const std::uint64_t high = (all >> 32) * share, low = (all & 0xffffffffu) * share;
  const std::uint64_t need = high + (low >> 32) + ((low & 0xffffffffu) != 0 ? 1 : 0);
  std::uint64_t sum = 0;
  std::size_t kept = 0;
  while (kept < left.size() && (kept == 0 || sum < need)) sum += weights[kept++];
  left.resize(kept);
}

}  // namespace

std::vector<std::uint64_t> target_weights(std::span<const float> logits, const RowSampling& row) {
  const DenormalsOff denormals_off;
  const std::vector<float> scores = scores_of(logits, row);
  std::vector<std::uint64_t> weights(scores.size(), 0);
  const float largest = *std::max_element(scores.begin(), scores.end());
  if (largest == kNever) return weights;

  const float bound = row.min_p > 0 ? largest + mortise_log(std::min(row.min_p, 1.0f)) : kNever;
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
  for (std::int32_t id : left) {
    weights[static_cast<std::size_t>(id)] = weight_of(scores[static_cast<std::size_t>(id)], largest);
  }
  return weights;
}

}  // namespace mortise
