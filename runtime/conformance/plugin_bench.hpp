// runtime/conformance/plugin_bench.hpp: measures the calls of a plugin beside those of the built-in part of its kind.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "conformance/case_run.hpp"

namespace mortise::conformance {

// One figure of both parts. Smaller is better where the unit is "us".
struct Figure {
  std::string what;  // "plan, 16 requests"
  std::string unit;  // "us", or "tokens a step"
  double plugin = 0, built_in = 0;
};

struct BenchReport {
  std::string component, built_in;  // labels: "scheduler 'mine'", "scheduler 'fcfs'"
  int rounds = 0;
  std::vector<Figure> figures;  // medians over the rounds
};

// Runs the same work on the first component of `check.file`, or the one that `component` names, and on the built-in
// part, in turn, each round in a process of its own. Throws an Error if a part fails, or if its kind has no such work.
BenchReport bench_plugin(const CheckOptions& check, const std::string& component, int rounds, const RunLimits& limits);

nlohmann::json to_json(const BenchReport& report);

}  // namespace mortise::conformance
