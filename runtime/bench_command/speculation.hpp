// runtime/bench_command/speculation.hpp: what speculation gains: the same requests without drafts, with drafts of a
// fixed length and of adaptive ones, in turns in one process, for each proposer and batch size.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_command/scenarios.hpp"
#include "speculation/speculation_stats.hpp"

namespace mortise::bench {

// One way to run the requests.
struct SpeculationSide {
  std::vector<double> tokens_per_s;   // decoded, a sample a repetition
  double value = 0;                   // their median
  double acceptance_rate = 0;         // accepted / draft tokens; 0 when there were none
  double mean_acceptance_length = 1;  // over all steps, those without drafts included
  SpeculationStats speculation;       // by proposer and position; times
};

struct SpeculationRow {
  std::string work;      // "stories", "oracle 0.80"
  std::string proposer;  // that drafts
  std::int64_t batch = 1;
  SpeculationSide none, fixed;                     // of one engine
  SpeculationSide none_beside_adaptive, adaptive;  // of another
  PairedRatio fixed_speed, adaptive_speed;         // over none of the same engine
  PairedRatio adaptive_over_better;                // than the better of none and fixed
};

// Opens what `choice` names with the proposers and lengths that are compared. With a shape, a draft shape, or rates in
// `sizes`: an oracle at each rate, which with a draft shape costs what that model costs, and ngram on texts that hold
// nothing to be found. Else the proposers of the script on stories, and ngram on texts that quote their prompts.
// `device` is set to what it ran on.
std::vector<SpeculationRow> measure_speculation(const SubjectChoice& choice, const Sizes& sizes, int repeats,
                                                std::string& device);

std::string speculation_table(const std::vector<SpeculationRow>& rows);
nlohmann::ordered_json speculation_json(const std::vector<SpeculationRow>& rows);

}  // namespace mortise::bench
