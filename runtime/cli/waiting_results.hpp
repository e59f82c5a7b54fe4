// runtime/cli/waiting_results.hpp: results that an earlier run of batch or score had finished, but not yet written to
// the output file because an earlier line was still at work. They are in OUTPUT.waiting (jsonl/waiting_lines). Results
// there obey the rules for results in the output: each must be that of its line, of the same `created` and of the same
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

class WaitingResults {
 public:
  // Throws an Error when the file is something else, or another command's.
  WaitingResults(const LinesCommand& command, const std::string& output);

  // When the requests of the waiting results were.
  std::optional<std::int64_t> created() const;
  // Takes over what waits if it belongs to the earlier results; else discards it. Throws an Error when the session's
  // pipeline is not the one that gave the results. `created` is that of this run.
  void start(const EarlierResults& earlier, Session& session, std::int64_t created);
  // Nothing is kept: every line was written, or is to run again.
  void discard() { lines_.remove(); }

  // The result of the line, if it waits here. A result of a line that has changed since is dropped. Throws an Error
  // when the line's pipeline is not the one that gave the result.
  std::optional<LineResult> find(const LinesRun& run, const InputLine& line);

  WaitingLines& lines() { return lines_; }
  // What was discarded and why; empty: nothing was.
  std::string discarded() const;

 private:
  void check_fingerprint(const std::string& fingerprint, const OpenPipeline& pipeline) const;

  const LinesCommand& command_;
  WaitingLines lines_;
  bool discarded_ = false;       // the file was not of the run that made the output
  std::size_t num_changed_ = 0;  // of lines that have changed
};

}  // namespace mortise
