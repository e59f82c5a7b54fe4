// runtime/bench_command/bench.hpp: a run of `mortise bench`: the scenario, the pipeline, the number of repeats, the
// other side.
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
  std::string script, shape;          // empty: not given
  std::string draft_shape;            // --draft-shape
  std::vector<std::string> settings;  // --set PART.OPTION=VALUE
  std::vector<std::string> against;   // --against: settings, or one script, of the other side; empty: no comparison
  std::vector<std::string> urls;      // --url, for the scenario serve
  Sizes sizes;
  int repeats = 0;  // 0: the default of this kind of measurement
  std::string trace;
  std::string command;  // for the report
};

// Runs it. Throws an Error about wrong options or a failure.
Report run_bench(const BenchOptions& options);

}  // namespace mortise::bench
