#include "cli/json_lines_command.hpp"

#include <CLI/Error.hpp>
#include <fstream>
#include <iostream>

#include "error.hpp"

namespace mortise {
namespace {

// Enough to fill batches of every size and to let the scheduler choose; the results of finished lines wait in memory.
constexpr std::size_t kMaxLinesInFlight = 1024;

}  // namespace

void add_json_lines_command(CLI::App& app, const char* name, const char* description,
                            std::function<std::future<LineResult>(Session&, std::size_t, const std::string&)> start) {
  CLI::App* command = app.add_subcommand(name, description);
  auto options = std::make_shared<JsonLinesOptions>();
  command->add_option("script", options->script, "pipeline script (default: the embedded demo)");
  command->add_option("-i,--input", options->input, "JSON lines to read, - for standard input")->required();
  command->add_option("-o,--output", options->output, "JSON lines to write, - for standard output")->required();
  command->callback([options, start = std::move(start), name = std::string(name)] {
    std::ifstream in_file;
    if (options->input != "-") {
      in_file.open(options->input);
      if (!in_file) fail("{}: cannot be read; give an existing file, or - for standard input", options->input);
    }
    std::ofstream out_file;
    if (options->output != "-") {
      out_file.open(options->output);
      if (!out_file) fail("{}: cannot be written; give a path in an existing folder", options->output);
    }
    Session session(options->script);
    session.pipeline();  // a broken model is one error, not one for each line
    const std::size_t num_failed = run_ordered_lines(
        options->input == "-" ? std::cin : in_file, options->output == "-" ? std::cout : out_file, kMaxLinesInFlight,
        [&](std::size_t number, const std::string& line) { return start(session, number, line); });
    if (num_failed > 0) {
      std::cerr << "mortise: " << name << ": " << num_failed << " line(s) failed; see their \"error\" in the output\n";
      throw CLI::RuntimeError(1);
    }
  });
}

}  // namespace mortise
