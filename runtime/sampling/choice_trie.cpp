#include "sampling/choice_trie.hpp"

#include <algorithm>
#include <numeric>

namespace mortise {
namespace {

// A node under construction: the sorted choices [begin, end), which begin with its tokens.
struct Range {
  std::size_t begin = 0, end = 0;
};

}  // namespace

ChoiceTrie::ChoiceTrie(std::vector<std::vector<std::int32_t>> choices, std::vector<std::int32_t> end_tokens)
    : end_tokens_(std::move(end_tokens)) {
  std::sort(choices.begin(), choices.end());
  std::vector<Range> level{{0, choices.size()}};
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    std::vector<Range> below;
    for (Range range : level) {
      first_edge_.push_back(static_cast<std::int32_t>(edges_.size()));
      const std::size_t begin = range.begin;
      while (range.begin < range.end && choices[range.begin].size() == depth) ++range.begin;
      ends_here_.push_back(range.begin > begin ? 1 : 0);
      if (range.begin > begin) longest_ = static_cast<std::int32_t>(depth);
      while (range.begin < range.end) {
        const std::int32_t token = choices[range.begin][depth];
        std::size_t end = range.begin + 1;
        while (end < range.end && choices[end][depth] == token) ++end;
        edges_.push_back(token);
        below.push_back({range.begin, end});
        range.begin = end;
      }
    }
    level = std::move(below);
  }
  first_edge_.push_back(static_cast<std::int32_t>(edges_.size()));
}

std::span<const std::int32_t> ChoiceTrie::next_tokens(Node node) const {
  const auto at = static_cast<std::size_t>(node);
  const auto first = static_cast<std::size_t>(first_edge_[at]);
  return std::span(edges_).subspan(first, static_cast<std::size_t>(first_edge_[at + 1]) - first);
}

ChoiceTrie::Node ChoiceTrie::next(Node node, std::int32_t token) const {
  if (node == kNone) return kNone;
  const std::span<const std::int32_t> tokens = next_tokens(node);
  const auto at = std::lower_bound(tokens.begin(), tokens.end(), token);
  if (at == tokens.end() || *at != token) return kNone;
  return first_edge_[static_cast<std::size_t>(node)] + static_cast<Node>(at - tokens.begin()) + 1;
}

void ChoiceTrie::allow(Node node, std::span<std::uint32_t> mask) const {
  const auto set = [&](std::int32_t token) { mask[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32); };
  for (std::int32_t token : next_tokens(node)) set(token);
  if (ends_here_[static_cast<std::size_t>(node)] == 0) return;
  for (std::int32_t token : end_tokens_) set(token);
}

std::optional<std::pair<std::size_t, std::size_t>> find_continued_choice(
    std::span<const std::vector<std::int32_t>> choices) {
  std::vector<std::size_t> order(choices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return choices[a] < choices[b]; });
  // Sequences between a sequence and one that continues it continue it as well, so comparing neighbours suffices.
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::vector<std::int32_t>&shorter = choices[order[i - 1]], &longer = choices[order[i]];
    if (shorter.size() < longer.size() && std::equal(shorter.begin(), shorter.end(), longer.begin())) {
      return std::pair(order[i - 1], order[i]);
    }
  }
  return std::nullopt;
}

}  // namespace mortise
