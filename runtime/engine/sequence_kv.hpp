// runtime/engine/sequence_kv.hpp: gives sequences their KV blocks and takes them back: cached prefixes and their scores
// on the way in, blocks for new rows, committed blocks into the prefix tree, pins. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/parts.hpp"
#include "engine/sequence.hpp"
#include "kv/kv_cache.hpp"

namespace mortise {

class SequenceKv {
 public:
  // `observer`: as PrefixTree's.
  explicit SequenceKv(const EngineLimits& limits, KvObserver* observer = nullptr)
      : block_size_(limits.block_size),
        cache_(static_cast<std::size_t>(limits.num_blocks), limits.block_size, limits.prefix_cache, observer) {}

  // Finds the cached prefix that a waiting sequence would start with. It ends before the last token, which must be run
  // for what comes after it, and before the first scored token whose score the cache does not know. Completions of a
  // prompt, which run few tokens of their own, also get the beginning of a block, by copying it.
  void look_up(Sequence& sequence) const;
  // Gives a waiting sequence that prefix: blocks, and the scores of its tokens. REQUIRES: look_up() in this step.
  void admit(Sequence& sequence);
  // Gives the admitted sequences that copy a block one of their own, `from` to `to`. REQUIRES: all of the step are
  // admitted, and nothing has been allocated since; the copies are made before anything else writes KV.
  void copy_tails(std::span<Sequence* const> admitted, std::vector<BlockId>& from, std::vector<BlockId>& to);
  // Blocks for `num_tokens` tokens. Throws when they are not there, which the checked plan rules out.
  void reserve(Sequence& sequence, std::int32_t num_tokens);
  // Gives a fork of a running sequence, whose last known token is to be run, blocks of its own from that token's on.
  // What is in that block already is to be copied, `from` to `to`. False: too few blocks are free or cached.
  bool fork(Sequence& sequence, DraftFork& fork, std::vector<BlockId>& from, std::vector<BlockId>& to);
  // Exchanges the blocks of both: the fork's path is the sequence's from now on.
  void adopt(Sequence& sequence, DraftFork& fork);
  void drop_forks(Sequence& sequence);
  // Lets others find the blocks that this step has filled.
  void publish(Sequence& sequence);
  // Takes the blocks behind its known tokens, which drafts that did not stand have filled: there may be hundreds.
  void trim(Sequence& sequence);
  // Takes its blocks: it has ended or is preempted. Its pin stays.
  void release(Sequence& sequence);

  // Takes all that it has, its pin too, and what it remembers of this cache: another one takes this one's place.
  void forget(Sequence& sequence);
  // Empties the prefix cache. REQUIRES: every sequence was forgotten.
  void clear() { cache_.evict_all(); }

  // Keeps the first `num_tokens` tokens, as far as they are cached, in place of what was pinned for it before. Returns
  // the number of tokens that are kept.
  std::int32_t pin(Sequence& sequence, std::int32_t num_tokens);

  const KvCache& cache() const { return cache_; }

 private:
  void look_up_tail(Sequence& sequence) const;
  void keep_tail(const Sequence& sequence);
  std::int32_t num_scored_until(const Sequence& sequence, std::int32_t end) const;
  void take_scores(Sequence& sequence, const std::vector<BlockId>& path) const;
  void keep_scores(const Sequence& sequence, std::int32_t block_index);

  const std::int32_t block_size_;
  KvCache cache_;
};

}  // namespace mortise
