// runtime/bench_command/scenarios.hpp: the scenarios of `mortise bench`. README.md says how to add one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_command/measure.hpp"
#include "bench_command/subject.hpp"

namespace mortise::bench {

// The size of the work. Each scenario has defaults for sizes that are not given.
struct Sizes {
  std::vector<std::int64_t> batches;                    // --batch
  std::optional<std::int64_t> prompt, output;           // --prompt, --output: tokens
  std::optional<std::int64_t> num_groups, shared, own;  // --groups, --shared, --own
  std::int64_t largest_group = 0;                       // --largest-group
  std::vector<double> rates;                            // --rates: shares of right drafts, for oracles
  std::optional<std::int64_t> draft_tokens;             // --draft-tokens
};

// These make scenarios on a subject, which outlives them.
Scenario decode_scenario(Subject& subject, const Sizes& sizes);
Scenario prefill_scenario(Subject& subject, const Sizes& sizes);
Scenario batch_scenario(Subject& subject, const Sizes& sizes);
Scenario groups_scenario(Subject& subject, const Sizes& sizes);
Scenario score_scenario(Subject& subject, const Sizes& sizes);
// REQUIRES: the subject has no prefix cache.
Scenario prediction_scenario(Subject& subject, const Sizes& sizes);
// The scenario starts processes, so it takes a choice instead of an open subject. Writes the weights of a shape to a
// temporary folder.
Scenario startup_scenario(const SubjectChoice& choice);

// Compares the engine of the choice with `mortise serve`, and with servers at `urls` that speak OpenAI's API.
Scenario serve_scenario(const SubjectChoice& choice, const Sizes& sizes, const std::vector<std::string>& urls);

// Makes the scenario that measures the memory of processes that prefill and score.
Scenario memory_scenario(const SubjectChoice& choice, const Sizes& sizes);

// Makes the scenario that measures attention alone, with the heads of the choice's shape, on the device of its script.
// `device` is set to a description of the device.
Scenario attention_scenario(const SubjectChoice& choice, const Sizes& sizes, std::string& device);

// Returns the machine's limits: bandwidth of memory and caches, peaks of the units, for 1, 2, 4, .. threads.
std::vector<Figure> measure_limits(int repeats);
// Returns the limits of a device with its own memory: bandwidth of that memory and of uploads, and peak of products.
std::vector<Figure> measure_limits(int repeats, ProbedDevice& device, const ProductSizes& sizes = {});

}  // namespace mortise::bench
