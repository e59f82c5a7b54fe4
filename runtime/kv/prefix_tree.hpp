// runtime/kv/prefix_tree.hpp: finds the KV blocks that hold a given prefix. It is a radix tree whose edges are full
// blocks of `block_size` tokens. A block's KV depends on all tokens from the sequence's first to the block's last, so
// its parent and its own tokens identify a block. Tokens are compared one by one: a hash never decides. A block is at
// most one node, so a node is named by its block's id.
// A leaf may be a partial block, which is not full. It is never part of a path; it is kept for sequences that share
// some of its tokens and copy it. They may copy the first tokens of a full node too. The tree also keeps scores: the
// log probabilities of a block's tokens given their prefix. kv_cache.hpp counts holders and decides which leaf is
// evicted. Engine's thread only; takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.hpp"
#include "kv/kv_observer.hpp"
#include "kv/lazy_array.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

// A path from the root, named by its last block. The default is the empty path. A value: each thread has its own.
struct PrefixPath {
  BlockId last = kPrefixRoot;
  std::uint32_t generation = 0;  // of the node `last`: shows if the block was evicted and reused
  std::int32_t num_blocks = 0;
  // Set by match(): the number of nodes made up to the time when `last` had no child for the following tokens. That
  // stays true until `last` gets another child. 0: no full block of tokens followed.
  std::uint64_t missed_at = 0;
  std::uint64_t missed_key = 0;  // hash of these tokens and their parent
};

// The cached blocks as a tree: the path from the root to a node spells the tokens of a prefix. Invariant: no two nodes
// have the same parent and the same tokens, except partial blocks. Engine's thread only; takes no lock.
class PrefixTree {
 public:
  // `observer` is told of every node except partial blocks, and outlives the tree; nullptr: none.
  PrefixTree(std::size_t num_blocks, std::int32_t block_size, KvObserver* observer = nullptr);

  // Returns the longest path along the full blocks of `tokens`. `from`: an earlier result for the same tokens. If that
  // path still exists, the walk starts at its end, which saves a walk from the root in each step.
  PrefixPath match(std::span<const std::int32_t> tokens, PrefixPath from = {}) const;
  // Returns true only if match() would return `path` again. It compares only the nodes added since, not the tokens, so
  // it may return false although the path is unchanged. Notes in `path` how far it has looked.
  bool still_ends(PrefixPath& path) const;
  // Returns true only if, in addition, `path.last` has no new child at all, so that closest_child() would return the
  // same too.
  bool is_unchanged(const PrefixPath& path) const {
    return is_there(path) && path.missed_at > child_made_at(path.last);
  }
  // The path's blocks, first to last. REQUIRES: the path still exists.
  std::vector<BlockId> blocks(const PrefixPath& path) const;

  // Returns the child of `parent` with these tokens; nullopt: there is none.
  std::optional<BlockId> find(BlockId parent, std::span<const std::int32_t> tokens) const;
  // Makes `block` the child of `parent` for these tokens. Returns false if its 64-bit hash is that of another node; the
  // block then stays outside. REQUIRES: find() found none; `block` is no node; `parent` is a node or the root.
  bool insert(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);
  // Makes `block` a partial block below `parent`. REQUIRES: 1 to block_size - 1 tokens; `block` is no node; `parent` is
  // a node or the root.
  void insert_partial(BlockId parent, std::span<const std::int32_t> tokens, BlockId block);
  // Returns the child of `parent` that begins with most of `tokens`, and how many; 0: none. Examines the latest
  // children only.
  struct Begun {
    BlockId block = kPrefixRoot;
    std::int32_t num_tokens = 0;
  };
  Begun closest_child(BlockId parent, std::span<const std::int32_t> tokens) const;
  // Removes a leaf. REQUIRES: `block` is a node without children.
  void erase(BlockId block);

  bool contains(BlockId block) const { return node(block).present; }
  bool is_leaf(BlockId block) const { return node(block).num_children == 0; }
  BlockId parent(BlockId block) const { return node(block).parent; }
  PrefixPath path(BlockId block, std::int32_t num_blocks) const { return {block, node(block).generation, num_blocks}; }
  std::size_t size() const { return table_.size(); }  // without partial blocks

  // Scores of a node's tokens; an entry of rank 0 is unknown. Of two scores for a token, the score with more
  // alternatives is kept: its first n alternatives are the list for n.
  void set_score(BlockId block, std::int32_t offset, const TokenInfo& info);
  const TokenInfo* score(BlockId block, std::int32_t offset) const;  // nullptr: unknown

 private:
  // Zero bytes until the block becomes a node, which sets all of it.
  struct Node {
    BlockId parent;
    std::uint32_t generation;
    std::int32_t num_children;
    std::int32_t num_tokens;  // below block_size: a partial block
    bool present;
    std::uint64_t made_at;        // number of nodes made up to it, itself included
    std::uint64_t child_made_at;  // of the latest child
    BlockId first_child;          // the latest; kPrefixRoot: none
    BlockId next, previous;       // of the parent's children
    std::uint64_t key;
    std::uint32_t scores;  // 1 + its place in scores_; 0: none
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
  LazyArray<Node> nodes_;                             // by block
  LazyArray<std::int32_t> tokens_;                    // [num_blocks, block_size]
  std::vector<std::vector<TokenInfo>> scores_;        // each [block_size]
  std::vector<std::uint32_t> free_scores_;            // places in scores_ that no node uses
  std::unordered_map<std::uint64_t, BlockId> table_;  // hash of (parent, tokens) to the child; no partial blocks
  BlockId first_child_ = kPrefixRoot;                 // of the root
  std::uint64_t child_made_at_ = 0;                   // of the root
  std::uint64_t num_made_ = 0;
};

}  // namespace mortise
