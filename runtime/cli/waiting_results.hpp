// runtime/cli/waiting_results.hpp: results that an earlier run of batch or score finished, but did not write to the
// output, because an earlier line was still at work. They are in OUTPUT.waiting (jsonl/waiting_lines). The rules for
// results in the output apply to them as well: each must belong to its line, and have the same `created` and
// system_fingerprint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/earlier_results.hpp"
#include "cli/json_lines_command.hpp"
#include "jsonl/waiting_lines.hpp"

namespace mortise {

// The waiting results of one command. Used by the thread of the run. Invariant: a waiting result belongs to the line
// that its number names, unchanged.
class WaitingResults {
 public:
  // Throws an Error if the file is of another kind, or belongs to another command.
  WaitingResults(const LinesCommand& command, const std::string& output);

  // Returns the `created` of the waiting results.
  std::optional<std::int64_t> created() const;
  // Uses the waiting results if they belong to the earlier results; otherwise discards them. Throws an Error if the
  // session's pipeline is not the one that gave the results. `created` is that of this run.
  void start(const EarlierResults& earlier, Session& session, std::int64_t created);
  // Drops all waiting results: every line was written or will run again.
  void discard() { lines_.remove(); }

  // Returns the waiting result of the line, if there is one. If the line has changed since, its result is dropped.
  // Throws an Error if the line's pipeline is not the one that gave the result.
  std::optional<LineResult> find(const LinesRun& run, const InputLine& line);

  WaitingLines& lines() { return lines_; }
  // Returns what was discarded and why; empty if nothing was.
  std::string discarded() const;

 private:
  void check_fingerprint(const std::string& fingerprint, const OpenPipeline& pipeline) const;

  const LinesCommand& command_;
  WaitingLines lines_;
  bool discarded_ = false;       // the file was not from the run that wrote the output
  std::size_t num_changed_ = 0;  // results of lines that have changed
};

}  // namespace mortise
