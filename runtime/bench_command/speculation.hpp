// runtime/bench_command/speculation.hpp: measures the gain from speculation: the same requests without drafts, with
// drafts of a fixed length, and with adaptive lengths, alternating in one process, for each proposer and batch size.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_command/scenarios.hpp"
#include "speculation/speculation_stats.hpp"

namespace mortise::bench {

// A way to run the requests.
struct SpeculationSide {
  std::vector<double> tokens_per_s;   // decoded tokens, one sample for each repetition
  double value = 0;                   // their median
  double acceptance_rate = 0;         // accepted / draft tokens; 0 without drafts
  double mean_acceptance_length = 1;  // over all steps, including those without drafts
  SpeculationStats speculation;       // by proposer and position; times
};

struct SpeculationRow {
  std::string work;      // "stories", "oracle 0.80"
  std::string proposer;  // the proposer that drafts
  std::int64_t batch = 1;
  SpeculationSide none, fixed;                     // of one engine
  SpeculationSide none_beside_adaptive, adaptive;  // of another engine
  PairedRatio fixed_speed, adaptive_speed;         // relative to no drafts on the same engine
  PairedRatio adaptive_over_better;                // relative to the better of none and fixed
};

// Opens the pipeline of `choice` with the proposers and lengths to compare. With a shape, a draft shape, or rates in
// `sizes`, it measures an oracle at each rate (with a draft shape the oracle costs as much as that model), and ngram on
// texts in which it finds nothing. Otherwise it measures the proposers of the script on stories, and ngram on texts
// that quote their prompts. Sets `device` to a description of the device.
std::vector<SpeculationRow> measure_speculation(const SubjectChoice& choice, const Sizes& sizes, int repeats,
                                                std::string& device);

std::string speculation_table(const std::vector<SpeculationRow>& rows);
nlohmann::ordered_json speculation_json(const std::vector<SpeculationRow>& rows);

}  // namespace mortise::bench
