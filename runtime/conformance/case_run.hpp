// runtime/conformance/case_run.hpp: runs one case in a process of its own, so that a plugin that crashes, hangs, ends
// the process or takes all memory fails its case and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/subject.hpp"

namespace mortise::conformance {

enum class Outcome : std::uint32_t { kPassed, kFailed, kNotApplicable };

struct CaseResult {
  Outcome outcome = Outcome::kFailed;
  std::string text;    // why it failed or does not apply; the text that `work` returned, if it passed
  std::string output;  // the last line that the plugin wrote to standard output or error
  double seconds = 0;
};

struct RunLimits {
  std::chrono::seconds time{60};
  std::uint64_t bytes = std::uint64_t{4} << 30;  // of resident memory
};

// Runs `work` in a child. `work` returns a text, or throws as a case does. Processes that the child leaves behind are
// ended, and the case fails. Throws Interrupted (held_signals.hpp), when nothing of the case runs any more, if a signal
// asks this process to end. REQUIRES: no other thread of this process holds a lock that `work` needs.
CaseResult run_in_child(const RunLimits& limits, const std::function<std::string()>& work);

// Runs one case of one component; `component` is empty for a case of the file.
CaseResult run_case(const Case& rule, const CheckOptions& check, const std::string& component, const RunLimits& limits);

// A component of the file, as a child read it.
struct Described {
  std::string label;  // "scheduler 'fcfs'"
  std::string name;
  PartKind kind;
};
// Loads the file in a child and lists its components. Throws an Error if that fails.
std::vector<Described> describe_file(const CheckOptions& check, const RunLimits& limits);

}  // namespace mortise::conformance
