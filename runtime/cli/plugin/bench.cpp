// runtime/cli/plugin/bench.cpp: `mortise plugin bench FILE`: measures a plugin beside the built-in part of its kind.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/plugin/check_options.hpp"
#include "cli/plugin/commands.hpp"
#include "conformance/plugin_bench.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace conformance;

struct BenchArguments {
  CheckOptions check;
  std::string component, options;
  int rounds = 3;
  bool json = false;
};

void print_report(const BenchReport& report) {
  fmt::print("{} beside {} (built in); medians of {} alternating rounds\n\n", report.component, report.built_in,
             report.rounds);
  std::size_t width = 0;
  for (const Figure& figure : report.figures) width = std::max(width, figure.what.size());
  fmt::print("{:{}}  {:>12}  {:>12}  {:>6}\n", "", width, "plugin", "built in", "ratio");
  for (const Figure& figure : report.figures) {
    const std::string ratio = figure.built_in > 0 ? fmt::format("{:.2f}", figure.plugin / figure.built_in) : "-";
    const std::string unit = figure.unit == "us" ? " us" : "";
    fmt::print("{:{}}  {:>12}  {:>12}  {:>6}\n", figure.what, width, fmt::format("{:.1f}{}", figure.plugin, unit),
               fmt::format("{:.1f}{}", figure.built_in, unit), ratio);
  }
}

void run_bench(BenchArguments& arguments) {
  check_is_plugin_file("plugin bench", arguments.check.file);
  if (!arguments.options.empty()) arguments.check.options = read_plugin_options(arguments.options);
  const BenchReport report = bench_plugin(arguments.check, arguments.component, arguments.rounds, {});
  if (arguments.json) {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    print_report(report);
  }
  std::fflush(stdout);
}

}  // namespace

void add_plugin_bench_command(CLI::App& plugin) {
  CLI::App* command =
      plugin.add_subcommand("bench", "measure the calls of a plugin beside those of the built-in part of its kind");
  auto arguments = std::make_shared<BenchArguments>();
  command->add_option("file", arguments->check.file, "the plugin file")->required();
  command->add_option("--component", arguments->component, "name of the component (default: the first one)");
  command->add_option("--options", arguments->options, "options of the component, as a JSON object");
  command->add_option("--rounds", arguments->rounds, "how many times both parts are measured, alternating")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "print the report as JSON");
  command->callback([arguments] { run_bench(*arguments); });
}

}  // namespace mortise
