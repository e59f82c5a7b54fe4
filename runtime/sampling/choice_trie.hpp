// runtime/sampling/choice_trie.hpp: what a guided request may generate next: its choices' token sequences as a trie.
// Where it stands is a function of the tokens generated so far, so drafts are verified and preempted sequences go on
// without any state besides them.
// A choice that goes on as another (its tokens are the other's first) needs a token that says "this is all": an end
// token is allowed there. A choice that no other one continues is complete with its last token.
// Immutable; may be used by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mortise {

class ChoiceTrie {
 public:
  using Node = std::int32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = -1;  // the tokens are no beginning of a choice

  // Equal sequences count once. `end_tokens`, ascending, end a choice that another one continues.
  // REQUIRES: at least one sequence, none empty, no id negative.
  ChoiceTrie(std::vector<std::vector<std::int32_t>> choices, std::vector<std::int32_t> end_tokens);

  // The node behind `token`; kNone if no choice goes on with it, and after kNone.
  Node next(Node node, std::int32_t token) const;
  // A choice ends here and none goes on.
  bool is_complete(Node node) const { return node != kNone && next_tokens(node).empty(); }
  // Sets the bits of the tokens that may come next: token t is bit t % 32 of mask[t / 32].
  // REQUIRES: node is not kNone, and the mask reaches as far as its tokens.
  void allow(Node node, std::span<std::uint32_t> mask) const;

  // Tokens of the longest choice. An end token never comes later: a longer choice goes on where it may stand.
  std::int32_t longest() const { return longest_; }
  std::size_t num_nodes() const { return ends_here_.size(); }

 private:
  std::span<const std::int32_t> next_tokens(Node node) const;

  // Nodes are numbered level by level, so the edge at index i, in order of the nodes that edges leave, leads to node
  // i + 1. Edges of a node ascend by token.
  std::vector<std::int32_t> edges_;       // [num_nodes - 1] tokens
  std::vector<std::int32_t> first_edge_;  // [num_nodes + 1]
  std::vector<char> ends_here_;           // [num_nodes] a choice ends here
  std::vector<std::int32_t> end_tokens_;
  std::int32_t longest_ = 0;
};

// A choice whose tokens are the beginning of another's, and that other one: indices into `choices`.
std::optional<std::pair<std::size_t, std::size_t>> find_continued_choice(
    std::span<const std::vector<std::int32_t>> choices);

}  // namespace mortise
