// runtime/kv_events/cached_blocks.hpp: what the prefix tree holds, as its reader knows it, and the events that tell
// others. Events have vLLM's form: {"type": "BlockStored" | "BlockRemoved" | "AllBlocksCleared", ...}.
// A block is named by a hash of all tokens from the sequence's first to its last, of 63 bits because some readers take
// integers as signed: replicas of one model give a prefix the same name. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "kv_events/change_log.hpp"

namespace mortise {

class CachedBlocks {
 public:
  using Json = nlohmann::ordered_json;

  CachedBlocks(std::size_t num_blocks, std::int32_t block_size);

  // The events of the changes, a list. A chain of blocks that are stored one behind the other is one event, and so are
  // removals in a row.
  Json apply(const KvChanges& changes);
  // Events that tell everything to a reader who knows nothing, or something else: AllBlocksCleared, then every block
  // behind its parent.
  Json all() const;

 private:
  struct Block {
    std::uint64_t hash = 0;  // 0: not cached
    std::uint64_t parent = 0;
    std::uint64_t stored_at = 0;  // in blocks that had been stored: parents come before children
    std::vector<std::int32_t> tokens;
  };
  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  void add_stored(Json& events, const Block& block) const;

  const std::int32_t block_size_;
  std::vector<Block> blocks_;  // by id
  std::uint64_t num_stored_ = 0;
};

}  // namespace mortise
