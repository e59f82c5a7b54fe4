#include "kernels/cpu/reference/head_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr std::size_t kSlice = 2048, kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

float clean(float logit) {
  if (logit != logit) return -kInfinity;
  if (logit == kInfinity) return std::numeric_limits<float>::max();
  if (std::fpclassify(logit) == FP_SUBNORMAL || logit == 0) return 0.0f;
  return logit;
}

LogSumExp log_sum_exp(const std::vector<float>& logits) {
  LogSumExp state = {-kInfinity, 0.0f, 0.0f};
  for (std::size_t begin = 0; begin < logits.size(); begin += kSlice) {
    const std::size_t end = std::min(logits.size(), begin + kSlice);
    float slice_max = -kInfinity;
    for (std::size_t i = begin; i < end; ++i) slice_max = std::max(slice_max, clean(logits[i]));
    if (slice_max == -kInfinity) continue;
    float lane[kLanes] = {};  // lane i adds the columns i, 16 + i, 32 + i, ... of the slice
    for (std::size_t i = begin; i < end; ++i) {
      lane[(i - begin) % kLanes] += exp(clean(logits[i]) - slice_max);
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    const float merged_max = std::max(state.max, slice_max);
    const float left = soft_product(state.sum, exp(state.max - merged_max));
    const float right = soft_product(lane[0], exp(slice_max - merged_max));
    state = {merged_max, left + right, 0.0f};
  }
  state.lse = state.max + log(state.sum);
  return state;
}

std::vector<std::pair<float, std::int32_t>> ordered(const std::vector<float>& logits) {
  std::vector<std::pair<float, std::int32_t>> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    tokens.emplace_back(clean(logits[i]), static_cast<std::int32_t>(i));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  return tokens;
}

}  // namespace mortise::cpu::reference
