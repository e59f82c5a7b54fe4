// runtime/conformance/suite.hpp: the conformance suite of plugins: which cases run on a file, and their report.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "conformance/case_run.hpp"

namespace mortise::conformance {

// What to run.
struct Selection {
  std::string component;           // a name; empty: all components of the file
  std::vector<std::string> cases;  // names, or beginnings that end in '.': "scheduler."; empty: all
  int fuzz_minutes = 5;            // at the level fuzz: how long drawn cases are repeated with further seeds
};

// The result of one case for one component and seed. A value; borrows the case.
struct Finding {
  const Case* rule;
  std::string component;  // its name; empty for a case of the file
  PartKind kind{};
  std::uint64_t seed = 1;
  CaseResult result;

  // Returns "COMPONENT/CASE/SEED" for --reproduce. The component of a case of the file is "-".
  std::string reproduce_line() const;
};

// A case that begins.
struct CaseStart {
  const Case* rule;
  std::size_t number;  // 1 for the first one
  std::size_t total;   // the number of cases; 0: not known, as for the last cases of the level fuzz
};

// Functions that tell the caller of a run how it goes.
struct SuiteEvents {
  std::function<void(const CaseStart&)> on_start = [](const CaseStart&) {};
  std::function<void(const Finding&)> on_finding = [](const Finding&) {};
};

// Runs the selected cases and tells of the beginning and of the result of each. Returns one finding for each case. A
// repeated case gives its first failure, or its last pass if it never fails. Throws an Error if the file describes no
// component, or the selection names none.
std::vector<Finding> run_suite(const CheckOptions& check, const Selection& selection, const RunLimits& limits,
                               const SuiteEvents& events);

// Parses the line of a finding into `check` and `selection`. Throws an Error if the line has another form.
void apply_reproduce_line(const std::string& line, CheckOptions& check, Selection& selection);

// Returns the report as JSON: {"file", "passed", "cases": [{"component", "kind", "case", "sentence", "outcome", "text",
// "output", "seconds", "reproduce"}]}.
nlohmann::json report(const CheckOptions& check, const std::vector<Finding>& findings);
const char* outcome_name(Outcome outcome);

}  // namespace mortise::conformance
