#include "engine/in_flight.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bitset>
#include <optional>
#include <unordered_map>

namespace mortise {
namespace {

std::uint64_t hash_of_first(const Sequence& sequence, std::int32_t num_tokens, WaitingMemo::Hash& known) {
  if (known.num_tokens != num_tokens) {
    known = {num_tokens,
             XXH3_64bits(sequence.tokens.data(), static_cast<std::size_t>(num_tokens) * sizeof(std::int32_t))};
  }
  return known.value;
}

// Returns a hash of the tokens up to the end of the next whole block that the sequence computes. A collision can only
// make a sequence wait: pays() compares the tokens.
std::uint64_t next_block_key(Sequence& sequence, std::int32_t block_size) {
  return hash_of_first(sequence, (sequence.start() / block_size + 1) * block_size, sequence.memo.next_block);
}

// Returns a hash of a completion's whole prompt. Completions also share the prompt's last block, which is usually
// partial.
std::uint64_t prompt_key(Sequence& sequence) {
  return hash_of_first(sequence, *sequence.score_from, sequence.memo.prompt);
}

// Returns the number of leading tokens that both have in common.
std::int32_t num_common(const Sequence& leader, Sequence& waiting) {
  WaitingMemo& memo = waiting.memo;
  // If all tokens of the leader were equal, it may have more equal tokens now.
  if (memo.other != leader.id || memo.num_common == leader.num_tokens()) {
    const auto [end, unused] = std::ranges::mismatch(leader.tokens, waiting.tokens);
    memo.other = leader.id;
    memo.num_common = static_cast<std::int32_t>(end - leader.tokens.begin());
  }
  return memo.num_common;
}

// Returns how many prompt tokens a completion must still run, without the last one, whose row it runs itself in any
// case.
std::int32_t num_prompt_left(const Sequence& sequence) {
  return *sequence.score_from - 1 - sequence.start();
}

// Returns whether `leader` also leaves the scores in the cache that `waiting` needs of the prefix.
bool scores_for(const Sequence& leader, const Sequence& waiting) {
  if (!waiting.wants_scores()) return true;
  const Request& mine = leader.request();
  const Request& theirs = waiting.request();
  return mine.score_from && *mine.score_from <= *theirs.score_from &&
         mine.logprobs.value_or(0) >= theirs.logprobs.value_or(0);
}

// Returns whether the leader's prefix saves `waiting` at least half of its rows.
bool pays(const Sequence& leader, Sequence& waiting, std::int32_t block_size) {
  const std::int32_t common = num_common(leader, waiting) / block_size * block_size;
  return 2 * (common - waiting.start()) >= waiting.num_to_run() - waiting.start();
}

// Finds keys that may have been added twice; a key that was added once may be reported too. Thousands of sequences wait
// and few begin alike, so this rules out most of them fast. Used by one thread.
class SeenTwice {
 public:
  void add(std::uint64_t key) {
    if (once_[bucket(key)]) twice_.set(bucket(key));
    once_.set(bucket(key));
  }
  bool has(std::uint64_t key) const { return twice_[bucket(key)]; }

 private:
  static constexpr std::size_t kBuckets = 1 << 16;
  static std::size_t bucket(std::uint64_t key) { return key % kBuckets; }
  std::bitset<kBuckets> once_, twice_;
};

// The completions whose prompt is computed in this step or a later one, by a hash of the prompt. Engine's thread only.
class PromptLeaders {
 public:
  // Returns whether `sequence` waits until another sequence has computed the prompt of both.
  bool waits(Sequence& sequence) const {
    if (!sequence.scores_completion() || sequence.running() || num_prompt_left(sequence) < 1) return false;
    const auto at = leaders_.find(prompt_key(sequence));
    if (at == leaders_.end()) return false;
    const Sequence& leader = *at->second;
    const std::int32_t num_left = num_prompt_left(sequence);
    return leader.priority <= sequence.priority && leader.score_from == sequence.score_from &&
           scores_for(leader, sequence) && 2 * num_left >= sequence.num_to_run() - sequence.start() &&
           num_common(leader, sequence) >= *leader.score_from;
  }
  void add(Sequence& sequence) {
    if (!sequence.scores_completion() || !sequence.publishes || num_prompt_left(sequence) < 1) return;
    leaders_.try_emplace(prompt_key(sequence), &sequence);
  }

 private:
  std::unordered_map<std::uint64_t, const Sequence*> leaders_;
};

}  // namespace

std::vector<Sequence*> without_held_back(const std::deque<std::shared_ptr<Sequence>>& live, std::int32_t block_size) {
  std::vector<Sequence*> result;
  result.reserve(live.size());
  if (std::ranges::all_of(live, [](const auto& sequence) { return sequence->running(); })) {
    for (const auto& sequence : live) result.push_back(sequence.get());
    return result;  // only waiting sequences are held back
  }
  std::unordered_map<std::uint64_t, const Sequence*> leaders;
  PromptLeaders prompts;
  SeenTwice seen;
  std::vector<std::optional<std::uint64_t>> keys(live.size());  // set for sequences that compute and publish a block
  for (std::size_t i = 0; i < live.size(); ++i) {
    Sequence& sequence = *live[i];
    if ((sequence.start() / block_size + 1) * block_size > sequence.num_to_run() || !sequence.publishes) continue;
    keys[i] = next_block_key(sequence, block_size);
    seen.add(*keys[i]);
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::shared_ptr<Sequence>& sequence = live[i];
    if (keys[i] && seen.has(*keys[i])) {
      const auto [at, is_first] = leaders.try_emplace(*keys[i], sequence.get());
      const Sequence& leader = *at->second;
      const bool waits = !is_first && !sequence->running() && leader.priority <= sequence->priority &&
                         scores_for(leader, *sequence) && pays(leader, *sequence, block_size);
      if (waits) continue;
    }
    if (prompts.waits(*sequence)) continue;
    prompts.add(*sequence);
    result.push_back(sequence.get());
  }
  return result;
}

}  // namespace mortise
