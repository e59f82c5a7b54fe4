// runtime/bench_command/report.hpp: what a run of `mortise bench` found, as a table, as JSON, and beside an older one.
//
// The JSON: {"format": 1, "scenario", "subject", "against" (or null), "device", "command", "started" (UTC), "repeats",
//  "limits": null | {"movement": "read" | "upload", "read_bytes_per_s" (of that movement), "working_set_bytes",
//                     "unit" (or null), "operations_per_s" (or null)},
//  "figures": [{"name", "unit", "higher_is_better", "value", "samples", "floor", "ratio", "bound": null | [low, high],
//               "note"}],
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
  std::string movement = "read";  // this and the rest: as the probes name them
  std::size_t working_set_bytes = 0;
  std::optional<std::string> unit;
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

// Columns as wide as their widest cell; all but the first to the right, the last as it is.
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
// The figures in a file that --json wrote. Throws an Error that names the file and what is wrong with it.
std::vector<OldFigure> read_report(const std::filesystem::path& file);

// The figures of the same name beside each other. Speeds are compared as they are and, where both have a floor, by
// their nearness to it, which a machine that became slower meanwhile does not change.
std::string comparison_table(const Report& report, const std::vector<OldFigure>& old);

}  // namespace mortise::bench
