#include "kernels/cpu/reference/sample_token.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/reference/head_reduce.hpp"
#include "kernels/cpu/reference/math.hpp"
#include "kernels/cpu/reference/noise.hpp"
#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Tokens = std::vector<std::pair<float, std::int32_t>>;

std::vector<float> edited_logits(const SampleRow& row) {
  std::vector<float> logits(row.logits, row.logits + row.vocab_size);
  for (std::size_t e = 0; e < row.num_edits; ++e) {
    const LogitEdit& edit = row.edits[e];
    float& l = logits[static_cast<std::size_t>(edit.token)];
    l = l + edit.bias;
    l = l > 0 ? l / edit.repetition : soft_product(l, edit.repetition);
    l = l - edit.subtract;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = clean(logits[i]);
    if (row.allowed != nullptr && (row.allowed[i / 32] >> (i % 32) & 1u) == 0) logits[i] = -kInfinity;
  }
  return logits;
}

std::uint64_t weight(float probability) {
  return static_cast<std::uint64_t>(std::nearbyint(static_cast<double>(probability) * 0x1p32));
}

std::uint64_t total_weight(const Tokens& tokens, float max) {
  std::uint64_t total = 0;
  for (const auto& [x, id] : tokens) total += weight(exp(x - max));
  return total;
}

void keep_top_p(Tokens& tokens, float max, float top_p) {
  const std::uint64_t p = top_p > 0 ? weight(top_p) : 0;
  const std::uint64_t total = total_weight(tokens, max);
  const unsigned __int128 product = static_cast<unsigned __int128>(p) * total;
  const std::uint64_t need = static_cast<std::uint64_t>((product + 0xffffffffu) >> 32);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += weight(exp(tokens[i].first - max));
    if (sum >= need) return tokens.resize(i + 1);
  }
}

}  // namespace

Sampled sample_token(const SampleRow& row) {
  std::vector<float> logits = edited_logits(row);
  const bool greedy = !(row.temperature > 0);
  if (!greedy) {
    for (float& x : logits) x = clean(x / row.temperature);
  }
  Tokens tokens = ordered(logits);
  std::erase_if(tokens, [](const auto& token) { return token.first == -kInfinity; });
  if (tokens.empty()) return {-1, -kInfinity, {}, {}};
  if (greedy) return {tokens[0].second, 0.0f, {tokens[0].second}, {}};

  const float max = tokens[0].first;
  if (row.min_p > 0) {
    const float bound = max + log(std::min(row.min_p, 1.0f));
    std::erase_if(tokens, [=](const auto& token) { return !(token.first >= bound); });
  }
  if (row.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(row.top_k)));
  if (row.top_p < 1) keep_top_p(tokens, max, row.top_p);

  Sampled best = {-1, 0.0f, {}, {}};
  float best_score = -kInfinity, best_logit = 0.0f;
  for (const auto& [x, id] : tokens) {
    const float score = x + noise(row.key, row.position, id);
    if (score > best_score || (score == best_score && id < best.token)) {
      best_score = score;
      best_logit = x;
      best.token = id;
    }
    best.left.push_back(id);
    best.weights.push_back(weight(exp(x - max)));
  }
  const float total = static_cast<float>(total_weight(tokens, max)) * 0x1p-32f;
  best.logprob = (best_logit - max) - log(total);
  return best;
}

}  // namespace mortise::cpu::reference
