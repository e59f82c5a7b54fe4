// runtime/bench_command/bench.hpp: runs `mortise bench`: a scenario on a pipeline, repeatedly, perhaps beside another
// side.
#pragma once

#include <string>
#include <vector>

#include "bench_command/report.hpp"
#include "bench_command/scenarios.hpp"

namespace mortise::bench {

// Returns "decode", "prefill", "batch", "groups", "score", "startup", "limits", "speculation" and so on.
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

// Runs the benchmark. Throws an Error about wrong options or a failure.
Report run_bench(const BenchOptions& options);

}  // namespace mortise::bench
