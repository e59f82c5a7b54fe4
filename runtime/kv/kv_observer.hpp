// runtime/kv/kv_observer.hpp: the interface that learns which blocks enter and leave the prefix tree.
#pragma once

#include <cstdint>
#include <span>

#include "kv/block_pool.hpp"

namespace mortise {

inline constexpr BlockId kPrefixRoot = -1;  // the empty prefix, parent of first blocks

// Called in the middle of a step, so an implementation returns at once. It must not wait, nor do input or output.
// Engine's thread only. Invariant: a block that is stored was not stored, or was removed since.
class KvObserver {
 public:
  virtual ~KvObserver() = default;
  // `block` now holds `tokens`, after the path that ends in `parent`. `tokens` is valid during the call. A parent is
  // stored before its children. [engine's thread]
  virtual void stored(BlockId parent, std::span<const std::int32_t> tokens, BlockId block) = 0;
  // `block`, which was stored, has left the tree. Its children have left before it. [engine's thread]
  virtual void removed(BlockId block) = 0;
};

}  // namespace mortise
