// runtime/execution/prefix_groups.hpp: which runs of a batch begin with the same blocks, as mortise/batch.h wants them
// told. Found in the blocks themselves, whoever shared them and why: the prefix cache, choices of one request, drafts
// that are runs of their own. How many members or tokens are worth anything is the attention's business.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.hpp"

namespace mortise {

struct RowRun;

// Finds the branches of the tree that the runs' blocks form. Each run is compared with one other from where a branch
// began: in all about as many comparisons as there are shared blocks, and a sort of the runs at each branch.
class PrefixGroups {
 public:
  explicit PrefixGroups(std::int32_t block_size) : block_size_(block_size) {}

  // Forgets what was and finds the groups of `runs`. REQUIRES: the blocks of each run reach as far as its rows.
  void assign(std::span<const RowRun> runs);

  // As in mortise_batch; valid until the next call.
  std::int32_t size() const { return static_cast<std::int32_t>(shared_tokens_.size()); }
  std::span<const std::int32_t> offsets() const { return offsets_; }
  std::span<const std::int32_t> seqs() const { return seqs_; }
  std::span<const std::int32_t> shared_tokens() const { return shared_tokens_; }
  std::span<const std::int32_t> parents() const { return parents_; }

 private:
  // The whole blocks of a run that all its rows see.
  struct Path {
    std::int32_t run;
    std::span<const BlockId> blocks;
    std::size_t shared = 0;  // blocks that are those of the path it was compared with last
  };

  void branch(std::span<Path> paths, std::size_t depth, std::int32_t parent);
  void follow(std::span<Path> paths, std::size_t depth, std::int32_t parent);
  std::int32_t add_group(std::span<const Path> members, std::size_t depth, std::int32_t parent);

  const std::int32_t block_size_;
  std::vector<Path> paths_;
  std::vector<std::int32_t> offsets_{0}, seqs_, shared_tokens_, parents_;
};

}  // namespace mortise
