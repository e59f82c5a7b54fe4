#include "kv_events/cached_blocks.hpp"

#include <xxhash.h>

#include <algorithm>

namespace mortise {
namespace {

// For memory that attention reads directly, vLLM says "GPU" on every device. "CPU" would mean memory to which blocks
// were moved, which routers value less.
constexpr const char* kMedium = "GPU";

std::uint64_t hash_of(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  const std::uint64_t hash = XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent) >> 1;
  return std::max<std::uint64_t>(hash, 1);  // 0 means no hash
}

}  // namespace

CachedBlocks::CachedBlocks(std::size_t num_blocks, std::int32_t block_size)
    : block_size_(block_size), blocks_(num_blocks) {}

CachedBlocks::Json CachedBlocks::apply(const KvChanges& changes) {
  Json events = Json::array();
  std::span<const std::int32_t> tokens = changes.tokens;
  for (const KvChange& change : changes.list) {
    Block& changed = block(change.block);
    if (change.stored) {
      const auto own = tokens.first(static_cast<std::size_t>(block_size_));
      tokens = tokens.subspan(own.size());
      changed.parent = change.parent == kPrefixRoot ? 0 : block(change.parent).hash;
      changed.hash = hash_of(changed.parent, own);
      changed.stored_at = ++num_stored_;
      changed.tokens.assign(own.begin(), own.end());
      add_stored(events, changed);
    } else {
      const bool goes_on = !events.empty() && events.back()["type"] == "BlockRemoved";
      if (!goes_on) {
        events.push_back(
            Json::object({{"type", "BlockRemoved"}, {"block_hashes", Json::array()}, {"medium", kMedium}}));
      }
      events.back()["block_hashes"].push_back(changed.hash);
      changed.hash = 0;
    }
  }
  return events;
}

CachedBlocks::Json CachedBlocks::all() const {
  std::vector<const Block*> cached;
  for (const Block& block : blocks_) {
    if (block.hash != 0) cached.push_back(&block);
  }
  std::ranges::sort(cached, {}, &Block::stored_at);
  Json events = Json::array({Json::object({{"type", "AllBlocksCleared"}})});
  for (const Block* block : cached) add_stored(events, *block);
  return events;
}

void CachedBlocks::add_stored(Json& events, const Block& block) const {
  const bool goes_on = block.parent != 0 && !events.empty() && events.back()["type"] == "BlockStored" &&
                       events.back()["block_hashes"].back() == block.parent;
  if (!goes_on) {
    events.push_back(Json::object({{"type", "BlockStored"},
                                   {"block_hashes", Json::array()},
                                   {"parent_block_hash", block.parent == 0 ? Json(nullptr) : Json(block.parent)},
                                   {"token_ids", Json::array()},
                                   {"block_size", block_size_},
                                   {"lora_id", nullptr},
                                   {"medium", kMedium},
                                   {"lora_name", nullptr}}));
  }
  events.back()["block_hashes"].push_back(block.hash);
  for (const std::int32_t token : block.tokens) events.back()["token_ids"].push_back(token);
}

}  // namespace mortise
