// runtime/runner/runner_kv.hpp: the KV blocks of a runner: which sequence holds which, which prefixes are cached, and
// which sequence gives way when the pool is full. Lack of memory is no failure: a sequence that gets no blocks is
// computed later. Engine's thread only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/kv_cache.hpp"
#include "runner/runner_sequence.hpp"

namespace mortise {

using RunnerSequences = std::unordered_map<std::uint64_t, RunnerSequence>;

// Invariant: the blocks of a runner's sequence have room for its tokens with KV, or the sequence has none. Engine's
// thread only.
class RunnerKv {
 public:
  RunnerKv(std::int32_t num_blocks, std::int32_t block_size, bool prefix_cache)
      : block_size_(block_size), cache_(static_cast<std::size_t>(num_blocks), block_size, prefix_cache) {}

  // Gives each of `wanted` the blocks for all of its tokens. If the pool is full, it takes blocks from sequences of
  // `all` that are not wanted, the least recently run first, then from wanted ones: those without blocks give way to
  // those with blocks, and later ones to earlier ones. Sequences that get nothing lose their blocks. Sorts `wanted`
  // accordingly, those that got nothing last, and returns how many can run.
  // REQUIRES: last_step == step for each of `wanted`, and less for all others.
  std::size_t reserve(std::span<RunnerSequence*> wanted, RunnerSequences& all, std::uint64_t step);

  // Declares the KV past the first `num_tokens` tokens invalid.
  void cut(RunnerSequence& sequence, std::int32_t num_tokens);
  // Puts the full blocks of committed tokens into the prefix tree.
  void publish(RunnerSequence& sequence);
  // Gives `fork`, which has no blocks, the KV of the first `num_computed` tokens of `origin`. Both hold the published
  // blocks; the other blocks must be copied from `from` to `to`. Returns false if there is no room; the fork then has
  // no KV.
  bool fork(const RunnerSequence& origin, std::int32_t num_computed, RunnerSequence& fork, std::vector<BlockId>& from,
            std::vector<BlockId>& to);
  // Frees the blocks of the sequence.
  void release(RunnerSequence& sequence);

  const KvCache& cache() const { return cache_; }
  std::uint64_t num_forgotten() const { return num_forgotten_; }  // sequences that lost their blocks to others

 private:
  void start(RunnerSequence& sequence);
  bool grow(RunnerSequence& sequence, std::size_t margin);
  bool forget_one(RunnerSequences& all, std::uint64_t step);
  std::size_t num_blocks_for(const RunnerSequence& sequence) const;

  const std::int32_t block_size_;
  KvCache cache_;
  std::uint64_t num_forgotten_ = 0;
};

}  // namespace mortise
