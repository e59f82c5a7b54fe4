// runtime/runner/runner_kv.hpp: a runner's KV blocks: which sequence holds which, what a cached prefix saves, and who
// gives way when the pool is full. Nothing here fails for lack of memory: a sequence that gets no blocks is not run now
// and is computed later. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/kv_cache.hpp"
#include "runner/runner_sequence.hpp"

namespace mortise {

using RunnerSequences = std::unordered_map<std::uint64_t, RunnerSequence>;

class RunnerKv {
 public:
  RunnerKv(std::int32_t num_blocks, std::int32_t block_size, bool prefix_cache)
      : block_size_(block_size), cache_(static_cast<std::size_t>(num_blocks), block_size, prefix_cache) {}

  // Gives each of `wanted` blocks for all of its tokens, and takes those of whoever gets none. What `wanted` lacks
  // comes from sequences of `all` outside of it, the least recently run first, then from its own: who holds blocks
  // already comes before who does not, and earlier ones before later ones. Sorts `wanted` in this order, those that got
  // nothing last; returns how many can run. REQUIRES: each of `wanted` has last_step == step, others less.
  std::size_t reserve(std::span<RunnerSequence*> wanted, RunnerSequences& all, std::uint64_t step);

  // KV behind the first `num_tokens` tokens is not valid any more.
  void cut(RunnerSequence& sequence, std::int32_t num_tokens);
  // Lets others find the full blocks of committed tokens.
  void publish(RunnerSequence& sequence);
  // Gives `fork`, which has no blocks, the KV of the first `num_computed` tokens of `origin`: published blocks are held
  // by both, the others are to be copied, `from` to `to` each. False: there is no room, and the fork has no KV.
  bool fork(const RunnerSequence& origin, std::int32_t num_computed, RunnerSequence& fork, std::vector<BlockId>& from,
            std::vector<BlockId>& to);
  // Takes its blocks.
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
