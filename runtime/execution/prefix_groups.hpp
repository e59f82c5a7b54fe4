// runtime/execution/prefix_groups.hpp: finds the runs of a batch that begin with the same blocks, in the form of
// mortise/batch.h. Groups are found by comparing block tables, whatever the reason for the sharing (prefix cache,
// choices of one request, drafts in runs of their own). The attention decides which groups are large enough to use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.hpp"

namespace mortise {

struct RowRun;

// The runs' block tables form a tree; each branch that several runs share is a group. Invariant: a group's parent comes
// before it. Cost: about one comparison for each shared block, and a sort of the runs at each branch. Used only by the
// thread that runs steps.
class PrefixGroups {
 public:
  explicit PrefixGroups(std::int32_t block_size) : block_size_(block_size) {}

  // Replaces the groups by those of `runs`. REQUIRES: the blocks of each run reach as far as its rows.
  void assign(std::span<const RowRun> runs);

  // Return the groups as in mortise_batch; valid until the next call of assign().
  std::int32_t size() const { return static_cast<std::int32_t>(shared_tokens_.size()); }
  std::span<const std::int32_t> offsets() const { return offsets_; }
  std::span<const std::int32_t> seqs() const { return seqs_; }
  std::span<const std::int32_t> shared_tokens() const { return shared_tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }

 private:
  // The full blocks of a run that all its rows see.
  struct Path {
    std::int32_t run;
    std::span<const BlockId> blocks;
    std::size_t shared = 0;  // leading blocks equal to those of the path last compared with it
  };

  void branch(std::span<Path> paths, std::size_t depth, std::int32_t parent);
  void follow(std::span<Path> paths, std::size_t depth, std::int32_t parent);
  std::int32_t add_group(std::span<const Path> members, std::size_t depth, std::int32_t parent);

  const std::int32_t block_size_;
  std::vector<Path> paths_;
  std::vector<std::int32_t> offsets_{0}, seqs_, shared_tokens_, parents_;
};

}  // namespace mortise
