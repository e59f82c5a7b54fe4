#include "engine/sequence_kv.hpp"

#include <algorithm>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

// Returns whether a cached score has at least as many alternatives as the sequence's request wants.
bool serves(const TokenInfo* score, const Sequence& sequence) {
  return score != nullptr && score->top.size() >= static_cast<std::size_t>(sequence.request().logprobs.value_or(0));
}

}  // namespace

void SequenceKv::look_up(Sequence& sequence) const {
  // Thousands of sequences may wait, and most find no cached prefix in every step. Such a sequence skips the search if
  // the tree has not changed there. (A preempted sequence may have begun with a partial block that it no longer holds,
  // so num_cached is checked too.)
  const bool found_nothing =
      sequence.prefix.num_blocks == 0 && sequence.num_cached == 0 && sequence.partial_block == kPrefixRoot;
  const PrefixTree& tree = cache_.tree();
  if (found_nothing &&
      (sequence.scores_completion() ? tree.is_unchanged(sequence.prefix) : tree.still_ends(sequence.prefix))) {
    return;
  }
  sequence.prefix = cache_.tree().match(sequence.tokens, sequence.prefix);
  std::int32_t start = std::min(sequence.prefix.num_blocks * block_size_, sequence.num_to_run() - 1);
  if (sequence.wants_scores()) start = std::min(start, num_scored_until(sequence, start) - 1);
  sequence.num_cached = start / block_size_ * block_size_;
  look_up_partial_block(sequence);
}

// Looks for a block, after the whole cached blocks, that another completion filled with the rest of the same prompt.
void SequenceKv::look_up_partial_block(Sequence& sequence) const {
  sequence.partial_block = kPrefixRoot;
  const std::int32_t begin = sequence.num_cached, rest = sequence.next_scored_position() - begin;
  if (!sequence.scores_completion() || rest < 1 || rest >= block_size_) return;
  // Copies nothing if few blocks are left, so that the plan need not count the additional block.
  const auto needed = static_cast<std::size_t>(sequence.num_to_run() / block_size_ + 2);
  if (cache_.num_available() < needed) return;
  if (begin / block_size_ < sequence.prefix.num_blocks) {
    sequence.partial_block = cache_.tree().blocks(sequence.prefix)[static_cast<std::size_t>(begin / block_size_)];
  } else {
    const auto tokens = std::span<const std::int32_t>(sequence.tokens)
                            .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rest));
    const PrefixTree::Begun begun = cache_.tree().closest_child(sequence.prefix.last, tokens);
    if (begun.num_tokens < rest) return;
    sequence.partial_block = begun.block;
  }
  sequence.num_cached += rest;
}

// Returns the first token at or after next_scored_token() that has no cached score, at most end + 1. The row before
// that token must be run, because the row of a token gives the score of the next token.
std::int32_t SequenceKv::num_scored_until(const Sequence& sequence, std::int32_t end) const {
  const std::vector<BlockId> path = cache_.tree().blocks(sequence.prefix);
  const std::int32_t last = std::min(end, sequence.num_prompt - 1);
  for (std::int32_t token = sequence.next_scored_token(); token <= last; ++token) {
    const auto index = static_cast<std::size_t>(token / block_size_);
    if (index >= path.size()) return token;
    if (!serves(cache_.tree().score(path[index], token % block_size_), sequence)) return token;
  }
  return end + 1;
}

void SequenceKv::admit(Sequence& sequence) {
  if (!std::exchange(sequence.started, true)) sequence.usage.cached_tokens = sequence.num_cached;
  if (sequence.num_cached == 0) return;
  std::vector<BlockId> path = cache_.tree().blocks(sequence.prefix);
  if (sequence.wants_scores()) take_scores(sequence, path);
  path.resize(static_cast<std::size_t>(sequence.num_cached / block_size_));
  cache_.hold(path, &sequence.holder);
  sequence.num_published = static_cast<std::int32_t>(path.size());
  sequence.blocks = std::move(path);
  sequence.num_computed = sequence.num_cached;
}

void SequenceKv::copy_partial_blocks(std::span<Sequence* const> admitted, std::vector<BlockId>& from,
                                     std::vector<BlockId>& to) {
  std::vector<Sequence*> copying;
  for (Sequence* sequence : admitted) {
    if (sequence->partial_block != kPrefixRoot) copying.push_back(sequence);
  }
  if (copying.empty()) return;
  auto fresh = cache_.allocate(copying.size());
  if (!fresh) throw Error("the block pool is smaller than the checked plan");  // cannot happen: Planner checks
  // The allocation may have evicted the very block that is to be copied. Its KV is still intact, so one of the
  // sequences that want it gets that block itself, without a copy.
  const auto give = [&](Sequence& sequence, std::vector<BlockId>::iterator at) {
    if (*at != sequence.partial_block) {
      from.push_back(sequence.partial_block);
      to.push_back(*at);
    }
    cache_.set_holder(*at, sequence.holder);
    sequence.blocks.push_back(*at);
    sequence.partial_block = kPrefixRoot;
    fresh->erase(at);
  };
  for (Sequence* sequence : copying) {
    const auto at = std::find(fresh->begin(), fresh->end(), sequence->partial_block);
    if (at != fresh->end()) give(*sequence, at);
  }
  for (Sequence* sequence : copying) {
    if (sequence->partial_block != kPrefixRoot) give(*sequence, fresh->end() - 1);
  }
}

void SequenceKv::take_scores(Sequence& sequence, const std::vector<BlockId>& path) const {
  const std::int32_t last = std::min(sequence.num_cached, sequence.num_prompt - 1);
  const auto num_top = static_cast<std::size_t>(sequence.request().logprobs.value_or(0));
  for (std::int32_t token = sequence.next_scored_token(); token <= last; ++token) {
    TokenInfo info = *cache_.tree().score(path[static_cast<std::size_t>(token / block_size_)], token % block_size_);
    if (info.top.size() > num_top) info.top.resize(num_top);
    sequence.scores.push_back(std::move(info));
  }
}

void SequenceKv::reserve(Sequence& sequence, std::int32_t num_tokens) {
  const auto needed = static_cast<std::size_t>((num_tokens + block_size_ - 1) / block_size_);
  if (needed <= sequence.blocks.size()) return;
  const auto fresh = cache_.allocate(needed - sequence.blocks.size(), &sequence.holder);
  if (!fresh) throw Error("the block pool is smaller than the checked plan");  // cannot happen: Planner checks
  sequence.blocks.insert(sequence.blocks.end(), fresh->begin(), fresh->end());
}

void SequenceKv::publish(Sequence& sequence) {
  while (sequence.publishes && (sequence.num_published + 1) * block_size_ <= sequence.num_computed) {
    const auto index = static_cast<std::size_t>(sequence.num_published);
    const BlockId parent = index == 0 ? kPrefixRoot : sequence.blocks[index - 1];
    const auto tokens =
        std::span<const std::int32_t>(sequence.tokens)
            .subspan(index * static_cast<std::size_t>(block_size_), static_cast<std::size_t>(block_size_));
    const std::optional<BlockId> node = cache_.publish(parent, tokens, sequence.blocks[index], &sequence.holder);
    sequence.publishes = node.has_value();
    if (!node) return;
    sequence.blocks[index] = *node;
    keep_scores(sequence, sequence.num_published++);
  }
  if (sequence.scores_completion() && !sequence.wants_scores()) keep_partial_block(sequence);
}

// Enters a completion's partial last prompt block into the prefix tree, so that other completions of the prompt can
// copy it.
void SequenceKv::keep_partial_block(const Sequence& sequence) {
  const std::int32_t begin = sequence.num_published * block_size_;
  const std::int32_t num_tokens = sequence.num_computed - begin;
  const std::int32_t num_shared = std::min(*sequence.score_from - 1 - begin, num_tokens);
  if (!sequence.publishes || num_shared < 1) return;
  const auto tokens = std::span<const std::int32_t>(sequence.tokens)
                          .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(num_tokens));
  const auto index = static_cast<std::size_t>(sequence.num_published);
  const BlockId parent = index == 0 ? kPrefixRoot : sequence.blocks[index - 1];
  if (cache_.tree().closest_child(parent, tokens).num_tokens >= num_shared) return;
  cache_.keep_partial_block(parent, tokens, sequence.blocks[index]);
}

void SequenceKv::keep_scores(const Sequence& sequence, std::int32_t block_index) {
  if (!sequence.score_from) return;
  const std::int32_t first = *sequence.score_from;
  const std::int32_t begin = block_index * block_size_;
  const std::int32_t end = std::min(begin + block_size_, first + static_cast<std::int32_t>(sequence.scores.size()));
  for (std::int32_t token = std::max(begin, first); token < end; ++token) {
    cache_.tree().set_score(sequence.blocks[static_cast<std::size_t>(block_index)], token - begin,
                            sequence.scores[static_cast<std::size_t>(token - first)]);
  }
}

bool SequenceKv::fork(Sequence& sequence, DraftFork& fork, std::vector<BlockId>& from, std::vector<BlockId>& to) {
  const std::int32_t last = sequence.num_tokens() - 1;
  const auto first = static_cast<std::size_t>(last / block_size_);
  const auto end = (static_cast<std::size_t>(last) + fork.drafts.size()) / static_cast<std::size_t>(block_size_) + 1;
  const auto fresh = cache_.allocate(end - first, &sequence.holder);
  if (!fresh) return false;
  fork.blocks.assign(sequence.blocks.begin(), sequence.blocks.begin() + static_cast<std::ptrdiff_t>(first));
  fork.blocks.insert(fork.blocks.end(), fresh->begin(), fresh->end());
  fork.num_shared = first;
  if (last % block_size_ == 0) return true;
  from.push_back(sequence.blocks[first]);
  to.push_back(fresh->front());
  return true;
}

void SequenceKv::adopt(Sequence& sequence, DraftFork& fork) {
  std::swap(sequence.blocks, fork.blocks);  // the fork now has the path that lost
}

void SequenceKv::drop_forks(Sequence& sequence) {
  for (const DraftFork& fork : sequence.forks) {
    cache_.release(std::span<const BlockId>(fork.blocks).subspan(fork.num_shared), &sequence.holder);
  }
  sequence.forks.clear();
}

void SequenceKv::trim(Sequence& sequence) {
  const auto needed = static_cast<std::size_t>((sequence.num_tokens() + block_size_ - 1) / block_size_);
  if (needed >= sequence.blocks.size()) return;
  cache_.release(std::span<const BlockId>(sequence.blocks).subspan(needed), &sequence.holder);
  sequence.blocks.resize(needed);
}

void SequenceKv::release(Sequence& sequence) {
  drop_forks(sequence);
  cache_.release(sequence.blocks, &sequence.holder);
  sequence.blocks.clear();
  sequence.num_computed = sequence.num_published = 0;
  sequence.publishes = true;
}

void SequenceKv::forget(Sequence& sequence) {
  release(sequence);
  pin(sequence, 0);
  sequence.prefix = {};
  sequence.num_cached = 0;
  sequence.partial_block = kPrefixRoot;
  sequence.memo = {};
}

std::int32_t SequenceKv::pin(Sequence& sequence, std::int32_t num_tokens) {
  const auto first = std::span<const std::int32_t>(sequence.tokens).first(static_cast<std::size_t>(num_tokens));
  const std::vector<BlockId> path = cache_.tree().blocks(cache_.tree().match(first));
  cache_.hold(path, &sequence.pin_holder);
  cache_.release(sequence.pinned, &sequence.pin_holder);
  sequence.pinned = path;
  return static_cast<std::int32_t>(path.size()) * block_size_;
}

}  // namespace mortise
