#include "kv/block_pool.hpp"

#include <cassert>

namespace mortise {

BlockPool::BlockPool(std::size_t num_blocks) : holders_(num_blocks) {
  free_.reserve(num_blocks);
  // Ascending ids are taken first. The system allocates a page at its first use, so a lightly used pool takes little
  // memory.
  for (std::size_t i = num_blocks; i > 0; --i) free_.push_back(static_cast<BlockId>(i - 1));
}

std::optional<std::vector<BlockId>> BlockPool::allocate(std::size_t n) {
  if (free_.size() < n) return std::nullopt;
  std::vector<BlockId> ids(free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(n));
  free_.resize(free_.size() - n);
  for (BlockId id : ids) holders_[static_cast<std::size_t>(id)] = 1;
  return ids;
}

void BlockPool::share(BlockId id) {
  assert(num_holders(id) > 0);
  ++holders_[static_cast<std::size_t>(id)];
}

void BlockPool::release(BlockId id) {
  assert(num_holders(id) > 0);
  if (--holders_[static_cast<std::size_t>(id)] == 0) free_.push_back(id);
}

}  // namespace mortise
