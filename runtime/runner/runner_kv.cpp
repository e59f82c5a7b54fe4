#include "runner/runner_kv.hpp"

#include <algorithm>

namespace mortise {

std::size_t RunnerKv::num_blocks_for(const RunnerSequence& sequence) const {
  return (sequence.tokens.size() + static_cast<std::size_t>(block_size_) - 1) / static_cast<std::size_t>(block_size_);
}

std::size_t RunnerKv::reserve(std::span<RunnerSequence*> wanted, RunnerSequences& all, std::uint64_t step) {
  const auto first_new = std::stable_partition(
      wanted.begin(), wanted.end(), [](const RunnerSequence* sequence) { return !sequence->blocks.empty(); });
  auto num_holders = static_cast<std::size_t>(first_new - wanted.begin());
  std::size_t end = wanted.size();  // sequences from here on get no blocks
  std::size_t count = 0;
  while (count < end) {
    RunnerSequence& sequence = *wanted[count];
    const bool holds = count < num_holders;
    // A new sequence must leave one block for each of the others. Otherwise it would be displaced in one of the next
    // steps, and its computation would be lost.
    const std::size_t margin = holds ? 0 : count;
    const bool possible = num_blocks_for(sequence) + margin <= cache_.num_blocks();
    if (!holds && possible) start(sequence);
    bool fits = possible && grow(sequence, margin);
    while (!fits && possible && forget_one(all, step)) fits = grow(sequence, margin);
    while (!fits && possible && holds && end > count + 1) {
      RunnerSequence& last = *wanted[--end];
      if (last.blocks.empty()) continue;
      release(last);
      ++num_forgotten_;
      fits = grow(sequence, margin);
    }
    if (fits) {
      ++count;
      continue;
    }
    if (holds) {
      --num_holders;
      ++num_forgotten_;
    }
    release(sequence);
    std::rotate(wanted.begin() + static_cast<std::ptrdiff_t>(count),
                wanted.begin() + static_cast<std::ptrdiff_t>(count) + 1,
                wanted.begin() + static_cast<std::ptrdiff_t>(end));
    --end;
  }
  return count;
}

// Gives a sequence without blocks its cached prefix. Its last token runs in any case.
void RunnerKv::start(RunnerSequence& sequence) {
  const auto usable = std::span<const std::int32_t>(sequence.tokens).first(sequence.tokens.size() - 1);
  std::vector<BlockId> path = cache_.tree().blocks(cache_.tree().match(usable));
  cache_.hold(path);
  sequence.num_published = static_cast<std::int32_t>(path.size());
  sequence.num_computed = sequence.num_published * block_size_;
  sequence.blocks = std::move(path);
}

bool RunnerKv::grow(RunnerSequence& sequence, std::size_t margin) {
  const std::size_t needed = num_blocks_for(sequence);
  if (needed <= sequence.blocks.size()) return true;
  const std::size_t missing = needed - sequence.blocks.size();
  if (cache_.num_available() < missing + margin) return false;
  const auto fresh = cache_.allocate(missing);
  if (!fresh) return false;
  sequence.blocks.insert(sequence.blocks.end(), fresh->begin(), fresh->end());
  return true;
}

bool RunnerKv::forget_one(RunnerSequences& all, std::uint64_t step) {
  RunnerSequence* oldest = nullptr;
  for (auto& [id, sequence] : all) {
    if (sequence.blocks.empty() || sequence.last_step == step) continue;
    if (oldest == nullptr || sequence.last_step < oldest->last_step) oldest = &sequence;
  }
  if (oldest == nullptr) return false;
  release(*oldest);
  ++num_forgotten_;
  return true;
}

void RunnerKv::cut(RunnerSequence& sequence, std::int32_t num_tokens) {
  if (num_tokens >= sequence.num_computed) return;
  sequence.num_computed = num_tokens;
  const std::int32_t whole = num_tokens / block_size_;
  if (sequence.num_published <= whole) return;
  // Blocks in the prefix tree are never written again, because other sequences may read them.
  cache_.release(std::span<const BlockId>(sequence.blocks).subspan(static_cast<std::size_t>(whole)));
  sequence.blocks.resize(static_cast<std::size_t>(whole));
  sequence.num_published = whole;
  sequence.num_computed = whole * block_size_;
  sequence.publishes = true;
}

void RunnerKv::publish(RunnerSequence& sequence) {
  const std::int32_t known = std::min(sequence.num_computed, sequence.num_committed);
  while (sequence.publishes && (sequence.num_published + 1) * block_size_ <= known) {
    const auto index = static_cast<std::size_t>(sequence.num_published);
    const BlockId parent = index == 0 ? kPrefixRoot : sequence.blocks[index - 1];
    const auto size = static_cast<std::size_t>(block_size_);
    const auto tokens = std::span<const std::int32_t>(sequence.tokens).subspan(index * size, size);
    const std::optional<BlockId> node = cache_.publish(parent, tokens, sequence.blocks[index]);
    sequence.publishes = node.has_value();
    if (!node) return;
    sequence.blocks[index] = *node;
    ++sequence.num_published;
  }
}

bool RunnerKv::fork(const RunnerSequence& origin, std::int32_t num_computed, RunnerSequence& fork,
                    std::vector<BlockId>& from, std::vector<BlockId>& to) {
  const std::int32_t num_blocks = (num_computed + block_size_ - 1) / block_size_;
  const auto num_shared = static_cast<std::size_t>(std::min(origin.num_published, num_computed / block_size_));
  const auto own =
      std::span<const BlockId>(origin.blocks).first(static_cast<std::size_t>(num_blocks)).subspan(num_shared);
  if (cache_.num_available() < own.size()) return false;
  const auto shared = std::span<const BlockId>(origin.blocks).first(num_shared);
  const auto fresh = cache_.allocate(own.size());
  cache_.hold(shared);
  fork.blocks.assign(shared.begin(), shared.end());
  fork.blocks.insert(fork.blocks.end(), fresh->begin(), fresh->end());
  fork.num_computed = num_computed;
  fork.num_published = static_cast<std::int32_t>(num_shared);
  fork.publishes = origin.publishes;
  from.insert(from.end(), own.begin(), own.end());
  to.insert(to.end(), fresh->begin(), fresh->end());
  return true;
}

void RunnerKv::release(RunnerSequence& sequence) {
  cache_.release(sequence.blocks);
  sequence.blocks.clear();
  sequence.num_computed = sequence.num_published = 0;
  sequence.publishes = true;
}

}  // namespace mortise
