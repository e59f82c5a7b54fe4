// runtime/bench_command/load.hpp: makes requests that are random, but equal for equal seeds, and runs them on an
// engine.
#pragma once

#include <cstdint>
#include <vector>

#include "bench_command/cost.hpp"
#include "engine/engine.hpp"

namespace mortise::bench {

// Makes requests with random token ids and greedy sampling, which ignore end tokens. Prompts with different seeds have
// no common beginning, so the prefix cache finds nothing of an earlier run.
std::vector<Request> make_requests(const std::vector<SequenceShape>& sequences, std::int32_t vocab_size,
                                   std::uint32_t seed);

// A load of `num_groups` times `per_group` requests, and of another group of `largest` requests unless that is 0.
// Requests of one group share their first tokens. The requests are shuffled. The first request of each group, in the
// order of groups, has no cached tokens. A value.
struct PrefixGroupLoad {
  std::int64_t num_groups, per_group, shared, own, output, largest = 0;

  std::vector<std::int64_t> group_sizes() const;
  std::int64_t num_different() const;  // prompt tokens, with each shared beginning counted once
};
std::vector<SequenceShape> group_shapes(const PrefixGroupLoad& load);
std::vector<Request> make_group_requests(const PrefixGroupLoad& load, std::int32_t vocab_size, std::uint32_t seed);

// Returns `count` sequences with prompts of 16 to `prompt` tokens, and 8 to `output` generated tokens.
std::vector<SequenceShape> mixed_shapes(std::int64_t count, std::int64_t prompt, std::int64_t output,
                                        std::uint32_t seed);

// Times of events in seconds after submission, and figures of the engine.
struct LoadResult {
  double all_first_s = 0;  // when every request had had its first token
  double end_s = 0;
  std::int64_t tokens_after_first = 0;  // generated after all_first_s
  std::int64_t num_tokens = 0;          // generated
  std::uint64_t num_preemptions = 0;
  std::int64_t cached_tokens = 0;    // prompt tokens found in the prefix cache
  std::int64_t computed_tokens = 0;  // prompt tokens computed, including those that preempted requests computed again
  std::int64_t draft_tokens = 0, accepted_tokens = 0;
};

// Submits all requests at once and waits for their ends. Throws an Error if the engine refuses one, or ends one with an
// error.
LoadResult run_load(Engine& engine, std::vector<Request> requests);

}  // namespace mortise::bench
