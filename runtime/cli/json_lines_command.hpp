// runtime/cli/json_lines_command.hpp: what batch and score share: files in and out, and the count of failed lines.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/ordered_lines.hpp"
#include "cli/session.hpp"

namespace mortise {

struct JsonLinesOptions {
  std::string script, input, output;
};

// Adds the sub-command with [script], -i and -o. `start` gets the open session; see StartLine.
void add_json_lines_command(CLI::App& app, const char* name, const char* description,
                            std::function<std::future<LineResult>(Session&, std::size_t, const std::string&)> start);

}  // namespace mortise
