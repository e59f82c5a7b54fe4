// runtime/cli/batch_line.hpp: runs one line of a batch file. `batch` writes the result; `verify` compares it.
#pragma once

#include <string>

#include "cli/json_lines_command.hpp"

namespace mortise {

// Implements StartLine. The result is a line of the output file without its line end. `client_id` marks its requests
// for observers of the engine, and may be "".
std::size_t start_batch_line(const LinesRun& run, const InputLine& line, const FinishLine& finish,
                             const std::string& client_id);

}  // namespace mortise
