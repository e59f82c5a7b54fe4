// runtime/bench_command/report.hpp: writes the results of a run of `mortise bench` as a table, as JSON, and beside
// those of an older run.
//
// The JSON: {"format": 1, "scenario", "subject", "against" (or null), "device", "command", "started" (UTC), "repeats",
//  "limits": null | {"movement": "read" | "upload", "read_bytes_per_s" (of that movement), "working_set_bytes",
//                     "unit" (or null), "operations_per_s" (or null), "ranks" (of which each has these limits),
//                     "links": null | {"latency_s" (of an exchange of one row), "bytes_per_s" (received by a rank)}},
//  "figures": [{"name", "unit", "higher_is_better", "value", "samples", "floor", "ratio",
//               "links" (their share in the floor's time, or null), "bound": null | [low, high], "note"}],
//  "pairs": [{"name", "unit", "a", "b" (medians), "a_samples", "b_samples", "speed", "bound": null | [low, high]}],
//  "speculation" (of that scenario): [{"work", "proposer", "batch", "none", "fixed", "adaptive": {"tokens_per_s",
//   "samples", "acceptance_rate", "mean_acceptance_length", "speculation": {"proposers": [{"name", "verified",
//   "draft_tokens", "accepted_tokens", "acceptance_rate", "acceptance_rate_by_position", "mean_acceptance_length",
//   "draft_s"}], "verify_steps", "verify_s"}}, "fixed_over_none", "adaptive_over_none", "adaptive_over_better":
//   {"ratio", "bound"}}]}
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench_command/measure.hpp"
#include "bench_command/speculation.hpp"

namespace mortise::bench {

struct ReportLimits {
  Limits limits;                  // medians of the run
  std::string movement = "read";  // this and the members below are from the probes
  std::size_t working_set_bytes = 0;
  std::optional<std::string> unit;
  std::int32_t num_ranks = 1;
};

struct Report {
  std::string scenario, subject, device, command, started;
  std::optional<std::string> against;
  int repeats = 0;
  std::optional<ReportLimits> limits;
  std::vector<Figure> figures;
  std::vector<Comparison> comparisons;
  std::vector<SpeculationRow> speculation;
};

// Makes columns as wide as their widest cell. The first column is left-aligned, the last unchanged, all others
// right-aligned.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

std::string table_of(const Report& report);
nlohmann::ordered_json json_of(const Report& report);

// A figure of an older report.
struct OldFigure {
  std::string name, unit;
  bool higher_is_better = true;
  double value = 0;
  std::optional<double> ratio;
};
// Reads the figures in a file of --json. Throws an Error that names the file and the problem.
std::vector<OldFigure> read_report(const std::filesystem::path& file);

// Shows figures of the same name beside each other. Speeds are compared directly and, if both have a floor, relative to
// their floors. The second comparison still holds if the machine has become slower.
std::string comparison_table(const Report& report, const std::vector<OldFigure>& old);

}  // namespace mortise::bench
