// runtime/engine/sequence_kv.hpp: gives sequences their KV blocks and takes them back. It admits sequences with cached
// prefixes and their scores, allocates blocks for new rows, enters filled blocks into the prefix tree, and holds pins.
// Engine's thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/parts.hpp"
#include "engine/sequence.hpp"
#include "kv/kv_cache.hpp"

namespace mortise {

// Invariant: every block of a sequence, a fork or a pin is held in the cache by that sequence. Engine's thread only.
class SequenceKv {
 public:
  // `observer`: as in PrefixTree's constructor.
  explicit SequenceKv(const EngineLimits& limits, KvObserver* observer = nullptr)
      : block_size_(limits.block_size),
        cache_(static_cast<std::size_t>(limits.num_blocks), limits.block_size, limits.prefix_cache, observer) {}

  // Finds the cached prefix that a waiting sequence would be admitted with. The prefix ends before the last token,
  // because the model must run that token to predict the next. It also ends before the first token that needs a score
  // the cache does not have. Completions of one prompt also copy a partial block, because they run few tokens of their
  // own.
  void look_up(Sequence& sequence) const;
  // Gives a waiting sequence the blocks of that prefix and the scores of its tokens. REQUIRES: look_up() in this step.
  void admit(Sequence& sequence);
  // Gives each admitted sequence with a partial block a block of its own. The caller copies the blocks `from` to `to`
  // before anything else writes KV. REQUIRES: all sequences of the step are admitted, and nothing has been allocated
  // since.
  void copy_partial_blocks(std::span<Sequence* const> admitted, std::vector<BlockId>& from, std::vector<BlockId>& to);
  // Extends the sequence's blocks to `num_tokens` tokens. Throws when too few are free, which the checked plan rules
  // out.
  void reserve(Sequence& sequence, std::int32_t num_tokens);
  // Gives a fork of a running sequence its own blocks, from the block of the last known token on. If that block already
  // has KV, the caller copies it, `from` to `to`. Returns false if too few blocks are free or cached free.
  bool fork(Sequence& sequence, DraftFork& fork, std::vector<BlockId>& from, std::vector<BlockId>& to);
  // Exchanges the blocks of both, so that the sequence continues with the fork's path.
  void adopt(Sequence& sequence, DraftFork& fork);
  void drop_forks(Sequence& sequence);
  // Enters the blocks that this step has filled into the prefix tree.
  void publish(Sequence& sequence);
  // Releases the blocks past the known tokens, possibly hundreds. Rejected drafts filled them.
  void trim(Sequence& sequence);
  // Releases the blocks of a sequence that has ended or is preempted. Its pin stays.
  void release(Sequence& sequence);

  // Releases all blocks and the pin of the sequence, and clears its references to this cache, before the cache is
  // replaced or emptied.
  void forget(Sequence& sequence);
  // Empties the prefix cache. REQUIRES: every sequence was forgotten.
  void clear() { cache_.evict_all(); }

  // Pins the first `num_tokens` tokens, as far as they are cached; replaces the sequence's previous pin. Returns the
  // number of tokens pinned.
  std::int32_t pin(Sequence& sequence, std::int32_t num_tokens);

  const KvCache& cache() const { return cache_; }

 private:
  void look_up_partial_block(Sequence& sequence) const;
  void keep_partial_block(const Sequence& sequence);
  std::int32_t num_scored_until(const Sequence& sequence, std::int32_t end) const;
  void take_scores(Sequence& sequence, const std::vector<BlockId>& path) const;
  void keep_scores(const Sequence& sequence, std::int32_t block_index);

  const std::int32_t block_size_;
  KvCache cache_;
};

}  // namespace mortise
