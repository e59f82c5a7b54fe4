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

  // `starts`: each sequence's path; the empty one: it takes none. Cost: the different blocks.
  void find(std::span<const PrefixPath> starts, const KvCache& cache);

  // All by sequence. Two of equal first() share as many of their unheld blocks as the smaller of their num_shared()
  // says, or more.
  const std::vector<std::int32_t>& num_unheld() const { return num_unheld_; }
  // The first sequence whose path begins with some of its unheld blocks; itself if there is none.
  const std::vector<std::int32_t>& first() const { return first_; }
  const std::vector<std::int32_t>& num_shared() const { return num_shared_; }  // of num_unheld(), with first()

 private:
  struct Mark {
    std::uint64_t pass = 0;
    std::int32_t sequence = 0;
    std::int32_t num_unheld = 0;  // of its path, up to this block
  };

  std::vector<Mark> marks_;  // by block
  std::uint64_t pass_ = 0;
  std::vector<BlockId> fresh_;  // of one path, the last first
  std::vector<std::int32_t> num_unheld_, first_, num_shared_;
};

}  // namespace mortise
