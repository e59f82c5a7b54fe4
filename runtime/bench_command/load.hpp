// runtime/bench_command/load.hpp: requests for the engine, random but the same for the same seed, and their run.
#pragma once

#include <cstdint>
#include <vector>

#include "bench_command/cost.hpp"
#include "engine/engine.hpp"

namespace mortise::bench {

// Random token ids, greedy sampling, end tokens ignored. Prompts of different seeds share no beginning, so that the
// prefix cache finds nothing of an earlier run.
std::vector<Request> make_requests(const std::vector<SequenceShape>& sequences, std::int32_t vocab_size,
                                   std::uint32_t seed);

// `num_groups` times `per_group` requests and one more group of `largest`, if that is not 0; those of one group share
// their first tokens; shuffled. `first` of their shapes, in the order of groups, has nothing cached.
struct GroupLoad {
  std::int64_t num_groups, per_group, shared, own, output, largest = 0;

  std::vector<std::int64_t> group_sizes() const;
  std::int64_t num_different() const;  // prompt tokens: each shared beginning counts once
};
std::vector<SequenceShape> group_shapes(const GroupLoad& load);
std::vector<Request> make_group_requests(const GroupLoad& load, std::int32_t vocab_size, std::uint32_t seed);

// `count` sequences with prompts of 16 to `prompt` tokens and 8 to `output` generated ones.
std::vector<SequenceShape> mixed_shapes(std::int64_t count, std::int64_t prompt, std::int64_t output,
                                        std::uint32_t seed);

// When things happened, in seconds after submission, and what the engine said of it.
struct LoadResult {
  double all_first_s = 0;  // every request had its first token
  double end_s = 0;
  std::int64_t tokens_after_first = 0;  // generated after all_first_s
  std::int64_t num_tokens = 0;          // generated
  std::uint64_t num_preemptions = 0;
  std::int64_t cached_tokens = 0;    // prompt tokens that the prefix cache had
  std::int64_t computed_tokens = 0;  // that it had not, with those that preempted requests had to run again
  std::int64_t draft_tokens = 0, accepted_tokens = 0;
};

// Submits all at once and waits for their ends. Throws an Error when the engine refuses or ends one with an error.
LoadResult run_load(Engine& engine, std::vector<Request> requests);

}  // namespace mortise::bench
