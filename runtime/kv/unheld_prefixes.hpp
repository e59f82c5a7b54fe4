// runtime/kv/unheld_prefixes.hpp: of the cached paths that waiting sequences would begin with: which of their blocks
// nobody holds, and who would take the same ones. Those count as free until somebody takes them, and are taken once.
// Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_cache.hpp"

namespace mortise {

class UnheldPrefixes {
 public:
  explicit UnheldPrefixes(std::size_t num_blocks) : marks_(num_blocks) {}

  // `paths`: each sequence's, by its last block; kPrefixRoot: it has none. Cost: the different blocks.
  void find(std::span<const BlockId> paths, const KvCache& cache);

  // By sequence. Whoever holds a block holds those before it, so unheld blocks come last in a path.
  const std::vector<std::int32_t>& num_unheld() const { return num_unheld_; }
  // The earlier sequence that shares most of them, itself if none shares any; and how many those are. They are the
  // first ones of both.
  const std::vector<std::int32_t>& with() const { return with_; }
  const std::vector<std::int32_t>& num_shared() const { return num_shared_; }

 private:
  struct Mark {
    std::uint64_t pass = 0;
    std::int32_t sequence = 0;    // the first that has the block
    std::int32_t num_unheld = 0;  // of its path, up to this block
  };
  Mark& mark(BlockId block) { return marks_[static_cast<std::size_t>(block)]; }

  std::vector<Mark> marks_;  // by block
  std::uint64_t pass_ = 0;
  std::vector<BlockId> fresh_;  // of one path, the last first
  std::vector<std::int32_t> num_unheld_, with_, num_shared_;
};

}  // namespace mortise
