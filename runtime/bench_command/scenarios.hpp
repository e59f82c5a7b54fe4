// runtime/bench_command/scenarios.hpp: what `mortise bench` can measure. To add a scenario: see README.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench_command/measure.hpp"
#include "bench_command/subject.hpp"

namespace mortise::bench {

// How large the work is; what is not given has a default of the scenario's own.
struct Sizes {
  std::vector<std::int64_t> batches;                    // --batch
  std::optional<std::int64_t> prompt, output;           // --prompt, --output: tokens
  std::optional<std::int64_t> num_groups, shared, own;  // --groups, --shared, --own
  std::int64_t largest_group = 0;                       // --largest-group
  std::vector<double> rates;                            // --rates: of an oracle's drafts that are right
  std::optional<std::int64_t> draft_tokens;             // --draft-tokens
};

// The scenario over a subject, which outlives it.
Scenario decode_scenario(Subject& subject, const Sizes& sizes);
Scenario prefill_scenario(Subject& subject, const Sizes& sizes);
Scenario batch_scenario(Subject& subject, const Sizes& sizes);
Scenario groups_scenario(Subject& subject, const Sizes& sizes);
Scenario score_scenario(Subject& subject, const Sizes& sizes);
// REQUIRES: the subject has no prefix cache.
Scenario prediction_scenario(Subject& subject, const Sizes& sizes);
// Starts processes, so it takes what they are to open. Writes the weights of a shape to a temporary folder.
Scenario startup_scenario(const SubjectChoice& choice);

// The engine of the choice beside `mortise serve` over it, and servers at `urls` that speak OpenAI's API.
Scenario serve_scenario(const SubjectChoice& choice, const Sizes& sizes, const std::vector<std::string>& urls);

// The same, of processes that prefill and score.
Scenario memory_scenario(const SubjectChoice& choice, const Sizes& sizes);

// Attention alone, with the heads of the choice's shape, on the device of its script: `device` is to say which.
Scenario attention_scenario(const SubjectChoice& choice, const Sizes& sizes, std::string& device);

// The machine's limits: bandwidth of memory and caches, peaks of the units, on 1, 2, 4 ... threads.
std::vector<Figure> measure_limits(int repeats);
// Those of a device with memory of its own: bandwidths of that memory and to it, peak of its products.
std::vector<Figure> measure_limits(int repeats, ProbedDevice& device, const ProductSizes& sizes = {});

}  // namespace mortise::bench
