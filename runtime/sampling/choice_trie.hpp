// runtime/sampling/choice_trie.hpp: the tokens that a guided request may generate next: the token sequences of its
// choices as a trie. The current node depends on the generated tokens alone. So drafts can be verified and preempted
// sequences can continue without further state. If the tokens of a choice begin another choice, an end token is allowed
// after them to end the request. Any other choice is complete with its last token. Immutable, so any number of threads
// may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mortise {

// Invariant: the edges of a node ascend by token, and edge i leads to node i + 1. Immutable, so any thread may use it.
class ChoiceTrie {
 public:
  using Node = std::int32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = -1;  // the tokens begin no choice

  // Equal sequences count once. `end_tokens`, in ascending order, may end a choice that another choice continues.
  // REQUIRES: at least one sequence, none empty, no id negative.
  ChoiceTrie(std::vector<std::vector<std::int32_t>> choices, std::vector<std::int32_t> end_tokens);

  // Returns the node after `token`; kNone if no choice continues with it, or if `node` is kNone.
  Node next(Node node, std::int32_t token) const;
  // Whether a choice ends here and no choice continues.
  bool is_complete(Node node) const { return node != kNone && next_tokens(node).empty(); }
  // Sets the bits of the tokens that may come next: token t is bit t % 32 of mask[t / 32].
  // REQUIRES: node is not kNone, and the mask reaches as far as its tokens.
  void allow(Node node, std::span<std::uint32_t> mask) const;

  // The number of tokens in the longest choice. An end token is never at a later place, since it ends a choice that a
  // longer one continues.
  std::int32_t longest() const { return longest_; }
  std::size_t num_nodes() const { return ends_here_.size(); }

 private:
  std::span<const std::int32_t> next_tokens(Node node) const;

  // Nodes are numbered level by level, and edges are sorted by the node that they leave: edge i leads to node i + 1.
  // The edges of a node ascend by token.
  std::vector<std::int32_t> edges_;       // [num_nodes - 1] tokens
  std::vector<std::int32_t> first_edge_;  // [num_nodes + 1]
  std::vector<char> ends_here_;           // [num_nodes] whether a choice ends here
  std::vector<std::int32_t> end_tokens_;
  std::int32_t longest_ = 0;
};

// Indices of a choice and of another choice that continues its tokens.
std::optional<std::pair<std::size_t, std::size_t>> find_continued_choice(
    std::span<const std::vector<std::int32_t>> choices);

}  // namespace mortise
