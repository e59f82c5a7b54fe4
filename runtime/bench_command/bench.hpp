// runtime/bench_command/bench.hpp: one run of `mortise bench`: which scenario, of what, how often, against what.
#pragma once

#include <string>
#include <vector>

#include "bench_command/report.hpp"
#include "bench_command/scenarios.hpp"

namespace mortise::bench {

// "decode", "prefill", "batch", "groups", "score", "startup", "limits", "speculation"
const std::vector<std::string>& scenario_names();

struct BenchOptions {
  std::string scenario;
  std::string script, shape;          // empty: none
  std::string draft_shape;            // --draft-shape
  std::vector<std::string> settings;  // --set PART.OPTION=VALUE
  std::vector<std::string> against;   // --against: settings, or one script, of the other side; empty: no other side
  std::vector<std::string> urls;      // --url: of the scenario serve
  Sizes sizes;
  int repeats = 0;  // 0: 5, or 15 pairs
  std::string trace;
  std::string command;  // for the report
};

// Runs it. Throws an Error of what is wrong with the options, or of what failed.
Report run_bench(const BenchOptions& options);

}  // namespace mortise::bench
