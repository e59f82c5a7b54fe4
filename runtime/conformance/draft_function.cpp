#include "conformance/draft_function.hpp"

#include <algorithm>
#include <optional>

#include "mortise/numerics.h"

namespace mortise::conformance {
namespace {

constexpr float kRepeats = 8;  // added to the logit of a repeated token; other logits are in [-1, 1)

std::uint64_t mixed_bits(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns the token that followed an earlier occurrence of the last two tokens; nullopt: there is none.
std::optional<std::int32_t> follower_of_the_end(const std::vector<std::int32_t>& tokens) {
  if (tokens.size() < 3) return std::nullopt;
  for (std::size_t at = tokens.size() - 2; at-- > 0;) {
    if (tokens[at] == tokens[tokens.size() - 2] && tokens[at + 1] == tokens.back()) return tokens[at + 2];
  }
  return std::nullopt;
}

}  // namespace

void DraftText::append(std::int32_t token) {
  const std::uint64_t before = hashes_.empty() ? 0 : hashes_.back();
  tokens_.push_back(token);
  hashes_.push_back(mixed_bits(before ^ static_cast<std::uint32_t>(token)));
}

void DraftText::cut(std::size_t num_tokens) {
  tokens_.resize(std::min(num_tokens, tokens_.size()));
  hashes_.resize(tokens_.size());
}

bool DraftText::can_run() const {
  const auto has_embedding = [](std::int32_t token) { return token >= 0 && token < kDraftVocabSize; };
  return tokens_.size() <= static_cast<std::size_t>(kMaxModelLen) && std::ranges::all_of(tokens_, has_embedding);
}

void DraftText::write_logits(std::span<float> logits) const {
  const std::uint64_t hash = hashes_.back();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(static_cast<double>(mixed_bits(hash + i) >> 11) * 0x1p-52 - 1);
  }
  const auto repeated = follower_of_the_end(tokens_);
  if (repeated && hash % 4 != 0) logits[static_cast<std::size_t>(*repeated)] += kRepeats;
}

std::vector<std::int32_t> draw_choices(std::span<const float> logits, const DraftDraw& draw, std::size_t position,
                                       std::size_t num_choices) {
  if (num_choices == 1 && !(draw.temperature > 0)) {  // by far the most frequent case, which needs no sorted candidates
    return {static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin())};
  }
  std::vector<std::uint32_t> allowed((logits.size() + 31) / 32, ~0u);
  std::vector<mortise_candidate> scratch(logits.size());
  mortise_sample_row row{};
  row.logits = logits.data();
  row.vocab_size = static_cast<std::int64_t>(logits.size());
  row.temperature = draw.temperature;
  row.top_k = draw.top_k;
  row.top_p = draw.top_p;
  row.min_p = draw.min_p;
  row.key = draw.key;
  row.position = position;
  row.allowed = allowed.data();
  std::vector<std::int32_t> choices;
  while (choices.size() < num_choices) {
    const std::int32_t token = mortise_sample_token(&row, scratch.data(), nullptr);
    choices.push_back(token);
    if (token >= 0) allowed[static_cast<std::size_t>(token) / 32] &= ~(1u << (token % 32));
  }
  return choices;
}

}  // namespace mortise::conformance
