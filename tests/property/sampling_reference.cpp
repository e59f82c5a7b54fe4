#include "sampling_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace mortise::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

bool contains(std::span<const std::int32_t> list, std::int32_t id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// Bias, penalties, bans, the guided set.
Row edited(const ReferenceRow& row, const SamplingParams& params) {
  Row l(row.logits.begin(), row.logits.end());
  for (const auto& [id, bias] : params.logit_bias) l[static_cast<std::size_t>(id)] += bias;
  for (std::size_t id = 0; id < l.size(); ++id) {
    const auto token = static_cast<std::int32_t>(id);
    const auto count = std::count(row.generated.begin(), row.generated.end(), token);
    if (count > 0 || contains(row.prompt, token)) {
      l[id] = l[id] > 0 ? l[id] / params.repetition_penalty : l[id] * params.repetition_penalty;
    }
    if (count > 0) l[id] -= params.frequency_penalty * static_cast<double>(count) + params.presence_penalty;
    const bool banned =
        static_cast<std::int32_t>(row.generated.size()) < params.min_tokens && contains(row.end_tokens, token);
    if (banned || (row.allowed != nullptr && !contains(*row.allowed, token))) l[id] = -kInfinity;
  }
  return l;
}

// Probabilities of the tokens in `left`, which is in descending order.
Row softmax(const Row& x, const std::vector<std::int32_t>& left) {
  Row p;
  double sum = 0;
  for (std::int32_t id : left) {
    p.push_back(std::exp(x[static_cast<std::size_t>(id)] - x[static_cast<std::size_t>(left.front())]));
    sum += p.back();
  }
  for (double& value : p) value /= sum;
  return p;
}

void filter(const Row& x, const SamplingParams& params, double slack, std::vector<std::int32_t>& left) {
  if (params.min_p > 0) {
    const Row p = softmax(x, left);
    const double bound = p.front() * params.min_p * (1 - slack);
    left.resize(static_cast<std::size_t>(std::count_if(p.begin(), p.end(), [&](double v) { return v >= bound; })));
  }
  if (params.top_k > 0) left.resize(std::min(left.size(), static_cast<std::size_t>(params.top_k)));
  if (params.top_p < 1) {
    const Row p = softmax(x, left);
    double sum = 0;
    std::size_t n = 0;
    while (n < p.size() && (n == 0 || sum < params.top_p * (1 + slack))) sum += p[n++];
    left.resize(n);
  }
}

}  // namespace

double ReferenceDraw::margin(std::int32_t other) const {
  const auto at = std::find(left.begin(), left.end(), other);
  if (at == left.end()) return kInfinity;
  return *std::max_element(scores.begin(), scores.end()) - scores[static_cast<std::size_t>(at - left.begin())];
}

ReferenceDraw reference_draw(const ReferenceRow& row, const SamplingParams& params, double slack) {
  Row x = edited(row, params);
  ReferenceDraw draw;
  draw.left.resize(x.size());
  std::iota(draw.left.begin(), draw.left.end(), 0);
  std::erase_if(draw.left, [&](std::int32_t id) { return x[static_cast<std::size_t>(id)] == -kInfinity; });
  if (draw.left.empty()) return draw;
  const bool greedy = params.temperature == 0;
  for (double& value : x) value = greedy ? value : value / params.temperature;
  std::stable_sort(draw.left.begin(), draw.left.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  if (!greedy) filter(x, params, slack, draw.left);
  const std::uint64_t position = row.prompt.size() + row.generated.size();
  for (std::int32_t id : draw.left) {
    draw.scores.push_back(x[static_cast<std::size_t>(id)] + (greedy ? 0 : reference_noise(row.key, position, id)));
  }
  const auto best = std::max_element(draw.scores.begin(), draw.scores.end());
  draw.token = draw.left[static_cast<std::size_t>(best - draw.scores.begin())];
  return draw;
}

double reference_noise(std::uint64_t key, std::uint64_t position, std::int32_t token) {
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                              static_cast<std::uint32_t>(token), 0};
  std::uint32_t k[2] = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k[1], static_cast<std::uint32_t>(a)};
    std::copy(next, next + 4, counter);
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  const long double v = (static_cast<long double>(counter[0]) + 0.5L) / 4294967296.0L;
  return static_cast<double>(-std::log(-std::log1p(-v)));
}

}  // namespace mortise::test
