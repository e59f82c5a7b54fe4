// runtime/cli/earlier_results.hpp: reads the results that an earlier run of batch or score left in the output file, and
// checks each against its input line.
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
  ProgressState progress;          // finished lines
  std::uint64_t output_bytes = 0;  // of whole lines; the earlier run may have been killed within a line after them
  bool complete = false;           // every input line has a result
  std::optional<std::int64_t> created;
  // For each system_fingerprint of a result, the body of a request that gave it.
  std::map<std::string, nlohmann::json> fingerprints;
};

// Reads the lines of `in` that have a result in `out`. Throws an Error if a result does not belong to its line.
// REQUIRES: out.existing().
EarlierResults check_earlier_results(const LinesCommand& command, InputLines& in, OutputLines& out);

// Throws an Error if a pipeline of the session is not the one that gave the results.
void check_fingerprints(const EarlierResults& earlier, Session& session, const OutputLines& out);

}  // namespace mortise
