// runtime/kv/prefix_tree.hpp: which KV block holds the tokens of which prefix: a radix tree whose edges are full blocks
// of `block_size` tokens. A block's KV is a function of all tokens from the sequence's first to the block's last, so a
// block is known by its parent and its own tokens, which are compared one by one: a hash never decides. A block is at
// most one node, therefore a node is named by its block's id.
// A tail is a leaf whose block is not full. No path leads through it and nobody holds it; it is there to be copied, as
// any node is, by those who share some of its tokens.
// Beside a block the tree keeps scores: what the model said of the block's tokens given their prefix.
// Who holds blocks and which leaf goes first is not decided here but in kv_cache.hpp. Engine thread only; takes no
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.hpp"
#include "kv/kv_observer.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

// A path from the root, named by its last block. The default is the empty path.
struct PrefixPath {
  BlockId last = kPrefixRoot;
  std::uint32_t generation = 0;  // of `last` as a node: tells when the block has been evicted and reused
  std::int32_t num_blocks = 0;
  // Of match(), counted in nodes made until then: when `last` had no child for the tokens that follow, which stays so
  // until it gets another one. 0: there was nothing to look for.
  std::uint64_t missed_at = 0;
  std::uint64_t missed_key = 0;  // hash of what was looked for
};

class PrefixTree {
 public:
  // `observer` hears of every node but tails; nullptr: nobody does. It outlives the tree.
  PrefixTree(std::size_t num_blocks, std::int32_t block_size, KvObserver* observer = nullptr);

  // The longest path along the full blocks of `tokens`. `from`: an earlier answer for the same tokens, from which the
  // walk goes on if the path is still there; it saves walking from the root in each step.
  PrefixPath match(std::span<const std::int32_t> tokens, PrefixPath from = {}) const;
  // Whether match() would give its answer `path` again, without a look at the tokens: by what was made since the last
  // time. False where it cannot tell.
  bool still_ends(PrefixPath& path) const;
  // The same, and nothing at all was made behind it: closest_child() has its answer again, too.
  bool is_unchanged(const PrefixPath& path) const {
    return is_there(path) && path.missed_at > child_made_at(path.last);
  }
  // The path's blocks, first to last. REQUIRES: the path is there.
  std::vector<BlockId> blocks(const PrefixPath& path) const;

  // The child of `parent` with these tokens, if there is one.
  std::optional<BlockId> find(BlockId parent, std::span<const std::int32_t> tokens) const;
  // Makes `block` the child of `parent` for these tokens. False: two different blocks have one 64-bit hash, and the
  // block stays outside. REQUIRES: find() found none; `block` is no node; `parent` is one or the root.
  bool insert(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);
  // Makes `block` a tail behind `parent`. REQUIRES: 1 to block_size - 1 tokens; `block` is no node; `parent` is one or
  // the root.
  void insert_tail(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);
  // Of the latest children of `parent` the one that begins with most of `tokens`, and how many they are; none: 0.
  struct Begun {
    BlockId block = kPrefixRoot;
    std::int32_t num_tokens = 0;
  };
  Begun closest_child(BlockId parent, std::span<const std::int32_t> tokens) const;
  // Takes a leaf out. REQUIRES: `block` is a node without children.
  void erase(BlockId block);

  bool contains(BlockId block) const { return node(block).present; }
  bool is_leaf(BlockId block) const { return node(block).num_children == 0; }
  BlockId parent(BlockId block) const { return node(block).parent; }
  PrefixPath path(BlockId block, std::int32_t num_blocks) const { return {block, node(block).generation, num_blocks}; }
  std::size_t size() const { return table_.size(); }  // without tails

  // Scores of a node's tokens. An entry of rank 0 is unknown. Of two scores for a token the one with more alternatives
  // stays: the first n alternatives of a long list are the list of n.
  void set_score(BlockId block, std::int32_t offset, const TokenInfo& info);
  const TokenInfo* score(BlockId block, std::int32_t offset) const;  // nullptr: unknown

 private:
  struct Node {
    BlockId parent = kPrefixRoot;
    std::uint32_t generation = 0;
    std::int32_t num_children = 0;
    std::int32_t num_tokens = 0;  // below block_size: a tail
    bool present = false;
    std::uint64_t made_at = 0;                           // in nodes that had been made with it
    std::uint64_t child_made_at = 0;                     // of the latest child
    BlockId first_child = kPrefixRoot;                   // the latest; kPrefixRoot: none
    BlockId next = kPrefixRoot, previous = kPrefixRoot;  // of the parent's children
    std::uint64_t key = 0;
    std::vector<TokenInfo> scores;  // empty, or [block_size]
  };

  const Node& node(BlockId block) const { return nodes_[static_cast<std::size_t>(block)]; }
  Node& node(BlockId block) { return nodes_[static_cast<std::size_t>(block)]; }
  std::span<std::int32_t> tokens_of(BlockId block);
  std::span<const std::int32_t> tokens_of(BlockId block) const;
  bool is_there(const PrefixPath& path) const;
  const std::uint64_t& child_made_at(BlockId parent) const {
    return parent == kPrefixRoot ? child_made_at_ : node(parent).child_made_at;
  }
  std::uint64_t& child_made_at(BlockId parent) {
    return parent == kPrefixRoot ? child_made_at_ : node(parent).child_made_at;
  }
  BlockId first_child_of(BlockId parent) const {
    return parent == kPrefixRoot ? first_child_ : node(parent).first_child;
  }
  BlockId& first_child_of(BlockId parent) { return parent == kPrefixRoot ? first_child_ : node(parent).first_child; }
  std::optional<BlockId> find(BlockId parent, std::span<const std::int32_t> tokens, std::uint64_t key) const;
  void link(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);
  void unlink(BlockId block);

  const std::size_t block_size_;
  KvObserver* const observer_;
  std::vector<Node> nodes_;                           // by block
  std::vector<std::int32_t> tokens_;                  // [num_blocks, block_size]
  std::unordered_map<std::uint64_t, BlockId> table_;  // hash of (parent, tokens) to the child; no tails
  BlockId first_child_ = kPrefixRoot;                 // of the root
  std::uint64_t child_made_at_ = 0;                   // of the root
  std::uint64_t num_made_ = 0;
};

}  // namespace mortise
