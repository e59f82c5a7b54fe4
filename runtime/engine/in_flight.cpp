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

// The next whole block that a sequence will compute, by the whole prefix that it ends: 64 bits decide only what waits.
std::uint64_t next_block_key(Sequence& sequence, std::int32_t block_size) {
  return hash_of_first(sequence, (sequence.start() / block_size + 1) * block_size, sequence.memo.next_block);
}

// A completion's prompt, whole: its last block, which is not full, is shared too.
std::uint64_t prompt_key(Sequence& sequence) {
  return hash_of_first(sequence, *sequence.score_from, sequence.memo.prompt);
}

// Tokens that both begin with.
std::int32_t num_common(const Sequence& leader, Sequence& waiting) {
  WaitingMemo& memo = waiting.memo;
  // As far as the leader has tokens they may agree in more of them now.
  if (memo.other != leader.id || memo.num_common == leader.num_tokens()) {
    const auto [end, unused] = std::ranges::mismatch(leader.tokens, waiting.tokens);
    memo.other = leader.id;
    memo.num_common = static_cast<std::int32_t>(end - leader.tokens.begin());
  }
  return memo.num_common;
}

// Tokens of its prompt that a completion still runs, but for the last one, whose row it needs itself.
std::int32_t num_prompt_left(const Sequence& sequence) {
  return *sequence.score_from - 1 - sequence.start();
}

// What `waiting` asks of the prefix besides KV, `leader` leaves in the cache too.
bool scores_for(const Sequence& leader, const Sequence& waiting) {
  if (!waiting.wants_scores()) return true;
  const Request& mine = leader.request();
  const Request& theirs = waiting.request();
  return mine.score_from && *mine.score_from <= *theirs.score_from &&
         mine.logprobs.value_or(0) >= theirs.logprobs.value_or(0);
}

// At least half of what `waiting` has to run comes with the leader's prefix.
bool pays(const Sequence& leader, Sequence& waiting, std::int32_t block_size) {
  const std::int32_t common = num_common(leader, waiting) / block_size * block_size;
  return 2 * (common - waiting.start()) >= waiting.num_to_run() - waiting.start();
}

// Tells keys that were added once from those that may have been added twice. Thousands wait, few begin alike.
class SeenTwice {
 public:
  void add(std::uint64_t key) {
    if (once_[place(key)]) twice_.set(place(key));
    once_.set(place(key));
  }
  bool has(std::uint64_t key) const { return twice_[place(key)]; }

 private:
  static constexpr std::size_t kPlaces = 1 << 16;
  static std::size_t place(std::uint64_t key) { return key % kPlaces; }
  std::bitset<kPlaces> once_, twice_;
};

// The completions whose prompt is computed in this step or a later one, by that prompt.
class PromptLeaders {
 public:
  // Whether `sequence` waits for another one's prompt.
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
  std::unordered_map<std::uint64_t, const Sequence*> leaders;
  PromptLeaders prompts;
  SeenTwice seen;
  std::vector<std::optional<std::uint64_t>> keys(live.size());  // of those that compute and publish a block
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
