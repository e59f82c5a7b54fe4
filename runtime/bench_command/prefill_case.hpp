// runtime/bench_command/prefill_case.hpp: checks the sizes of scenarios of requests, and makes the case that prefill
// and score have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench_command/load.hpp"
#include "bench_command/scenarios.hpp"

namespace mortise::bench {

// Throws an Error if the value of an option is below `least`.
void check_at_least(std::int64_t least, const char* option, std::int64_t value);
// Throws an Error if the model cannot hold `prompt` and `output` tokens; `what` names the options that add up to them.
void check_fits(const Subject& subject, std::int64_t prompt, std::int64_t output, const std::string& what);
// Returns a shape with the given prompt length, otherwise with the default, limited by the model's length.
SequenceShape sequence_of(const Subject& subject, const Sizes& sizes, std::int64_t default_prompt, std::int64_t output);
// Returns the value of --batch in a scenario that takes only one.
std::int64_t one_batch(const Sizes& sizes, std::int64_t otherwise);

// `num_different`: the number of prompt tokens with shared ones counted once; nullopt: none are shared.
std::string note_of(const LoadResult& result, std::optional<std::int64_t> num_different);
std::optional<double> rate(std::int64_t tokens, std::optional<double> seconds);

// Runs all prompts at once until each has its first token. With `score`, also computes the log probabilities of all
// their tokens.
Case prefill_case(Subject& subject, std::int64_t batch, std::int64_t prompt, bool score);

}  // namespace mortise::bench
