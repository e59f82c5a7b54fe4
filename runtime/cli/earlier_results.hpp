// runtime/cli/earlier_results.hpp: what an earlier run of batch or score left in the output file, checked against the
// input line by line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/json_lines_command.hpp"
#include "jsonl/output_lines.hpp"
#include "jsonl/progress.hpp"

namespace mortise {

struct EarlierResults {
  ProgressState progress;          // lines that are done
  std::uint64_t output_bytes = 0;  // of whole lines; what is behind is a line that the end of that run cut off
  bool complete = false;           // no input line is left
  std::optional<std::int64_t> created;
  std::map<std::string, nlohmann::json> fingerprints;  // system_fingerprint -> the body of a request that got it
};

// Takes the lines from `in` that have a result in `out`. Throws an Error when a result is not that of its line.
// REQUIRES: out.existing().
EarlierResults check_earlier_results(const LinesCommand& command, InputLines& in, OutputLines& out);

// Throws an Error when a pipeline of the session is not the one that gave the results.
void check_fingerprints(const EarlierResults& earlier, Session& session, const OutputLines& out);

}  // namespace mortise
