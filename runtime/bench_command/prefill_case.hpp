// runtime/bench_command/prefill_case.hpp: what scenarios of requests share: sizes, checked, and the case that prefill
// and score both have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench_command/load.hpp"
#include "bench_command/scenarios.hpp"

namespace mortise::bench {

// Throws an Error when the value of an option is below the least.
void check_at_least(std::int64_t least, const char* option, std::int64_t value);
// Throws an Error when the model does not take so many tokens; `what` tells the options that made the sum.
void check_fits(const Subject& subject, std::int64_t prompt, std::int64_t output, const std::string& what);
// `prompt` if it was given, else the default as far as the model goes.
SequenceShape sequence_of(const Subject& subject, const Sizes& sizes, std::int64_t default_prompt, std::int64_t output);
// --batch of a scenario that takes one.
std::int64_t one_batch(const Sizes& sizes, std::int64_t otherwise);

// `num_different`: prompt tokens when shared ones count once; nullopt: nothing is shared.
std::string note_of(const LoadResult& result, std::optional<std::int64_t> num_different);
std::optional<double> rate(std::int64_t tokens, std::optional<double> seconds);

// All prompts at once until each has its first token; with `score` also the log probabilities of all their tokens.
Case prefill_case(Subject& subject, std::int64_t batch, std::int64_t prompt, bool score);

}  // namespace mortise::bench
