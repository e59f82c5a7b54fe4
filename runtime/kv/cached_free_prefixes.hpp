// runtime/kv/cached_free_prefixes.hpp: counts the cached free blocks that waiting sequences would begin with, and finds
// which sequences would share them. Cached blocks that nobody holds count as free until a sequence takes them. If
// several sequences share such a block, it is counted against the free blocks once. Engine's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_cache.hpp"
#include "kv/lazy_array.hpp"

namespace mortise {

// The result of the last find(). Invariant: with()[i] <= i. Engine's thread only.
class CachedFreePrefixes {
 public:
  explicit CachedFreePrefixes(std::size_t num_blocks) : marks_(num_blocks) {}

  // `paths`: the last block of each sequence's cached path; kPrefixRoot: it has none. Cost: one visit of each distinct
  // block.
  void find(std::span<const BlockId> paths, const KvCache& cache);

  // The number of cached free blocks in each sequence's path. A holder of a block holds all blocks before it, so
  // cached free blocks come last in a path.
  const std::vector<std::int32_t>& num_cached_free() const { return num_cached_free_; }
  // For each sequence: the earlier sequence that shares most of its cached free blocks, itself if none does; and how
  // many they share. The shared blocks are the first cached free blocks of both.
  const std::vector<std::int32_t>& with() const { return with_; }
  const std::vector<std::int32_t>& num_shared() const { return num_shared_; }

 private:
  struct Mark {
    std::uint64_t pass;
    std::int32_t sequence;         // the first sequence with the block
    std::int32_t num_cached_free;  // cached free blocks of its path up to this one
  };
  Mark& mark(BlockId block) { return marks_[static_cast<std::size_t>(block)]; }

  LazyArray<Mark> marks_;  // by block
  std::uint64_t pass_ = 0;
  std::vector<BlockId> fresh_;  // newly seen blocks of one path, the last first
  std::vector<std::int32_t> num_cached_free_, with_, num_shared_;
};

}  // namespace mortise
