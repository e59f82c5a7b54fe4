// mortise bench: runs named scenarios, and shows each figure beside its floor from the same run (runtime/bench_command,
// docs/performance.md).
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "bench_command/bench.hpp"
#include "bench_command/random_model.hpp"
#include "cli/commands.hpp"
#include "error.hpp"

namespace mortise {
namespace {

struct CommandOptions {
  bench::BenchOptions bench;
  std::vector<std::string> words;  // a scenario and optionally a script, in any order
  std::string json, compare;
  std::string save_model;  // a folder
};

// Decides which word is the scenario and which the script.
void read_words(CommandOptions& options) {
  const auto& names = bench::scenario_names();
  for (const std::string& word : options.words) {
    const bool is_scenario = std::find(names.begin(), names.end(), word) != names.end();
    std::string& place = is_scenario && options.bench.scenario.empty() ? options.bench.scenario : options.bench.script;
    if (!place.empty()) {
      throw CLI::ValidationError(fmt::format("bench: expected a scenario ({}) and at most one script, got {}",
                                             fmt::join(names, ", "), fmt::join(options.words, " ")));
    }
    place = word;
  }
  if (options.bench.scenario.empty()) {
    throw CLI::ValidationError(fmt::format("bench: which scenario? One of {}", fmt::join(names, ", ")));
  }
}

std::string command_line() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

void write_json(const std::string& file, const bench::Report& report) {
  std::ofstream stream(file, std::ios::binary);
  stream << json_of(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
  if (!stream) fail("--json {}: cannot be written; check the folder and its permissions", file);
}

// Writes the random weights of a shape for other programs.
void save_model(const CommandOptions& options) {
  if (options.bench.shape.empty() || !options.words.empty()) {
    throw CLI::ValidationError(
        "--save-model can only be used with --shape: mortise bench --shape 160m --save-model FOLDER");
  }
  const bench::ModelShape& shape = bench::model_shape(options.bench.shape);
  std::error_code error;
  std::filesystem::create_directories(options.save_model, error);
  if (error) fail("--save-model {}: {}", options.save_model, error.message());
  write_random_model(shape, options.save_model);
}

void run(CommandOptions& options) {
  if (!options.save_model.empty()) {
    save_model(options);
    return;
  }
  read_words(options);
  if (!options.compare.empty() && !options.bench.against.empty()) {
    throw CLI::ValidationError("--compare compares figures and --against measures pairs; give only one of them");
  }
  options.bench.command = command_line();
  // Reads the old report first, since a measurement may take minutes.
  std::vector<bench::OldFigure> old;
  if (!options.compare.empty()) old = bench::read_report(options.compare);
  const bench::Report report = bench::run_bench(options.bench);
  std::fputs(table_of(report).c_str(), stdout);
  if (!options.compare.empty()) std::fputs(("\n" + comparison_table(report, old)).c_str(), stdout);
  if (!options.json.empty()) write_json(options.json, report);
}

void add_sizes(CLI::App& command, bench::Sizes& sizes) {
  command
      .add_option("--batch", sizes.batches,
                  "sequences at a time; defaults: decode 1,8,32; speculation 1,4,16,64; attention 64; for groups: "
                  "sequences in a group")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--prompt", sizes.prompt, "tokens of a prompt");
  command.add_option("--output", sizes.output, "tokens to generate for each");
  command.add_option("--groups", sizes.num_groups, "groups: number of groups (32); score: number of contexts (2)");
  command.add_option("--largest-group", sizes.largest_group, "groups: add a group with this many sequences (none)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20));
  command.add_option(
      "--shared", sizes.shared,
      "groups, attention: tokens that a group shares (512; 2000 and 8192); score: tokens of a context (2000)");
  command.add_option("--rates", sizes.rates, "speculation: acceptance rates of the oracles (0,0.5,0.8,0.95)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--draft-tokens", sizes.draft_tokens,
                  "speculation: maximum number of drafts for a sequence in a step")
      ->check(CLI::Range(1, INT32_MAX));
  command.add_option("--own", sizes.own,
                     "groups, attention: unshared tokens of each sequence (64; 208); score: tokens of a choice (20)");
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "measure the engine in a named scenario, beside the machine's limits");
  const auto options = std::make_shared<CommandOptions>();
  command->add_option(
      "scenario", options->words,
      fmt::format("{}; optionally a pipeline script (default: the demo)", fmt::join(bench::scenario_names(), ", ")));
  bench::BenchOptions& bench = options->bench;
  command->add_option("--shape", bench.shape, "random weights of this shape: " + bench::model_shape_names());
  command->add_option("--draft-shape", bench.draft_shape,
                      "speculation: the oracle drafts at the cost of random weights of this shape");
  command
      ->add_option(
          "--set", bench.settings,
          "set an option of a part, such as device.threads=1, kv_cache.memory=1GiB or device.devices=[0,1]; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--against", bench.against,
                   "measure in pairs against this: a setting as in --set (repeatable), or another script")
      ->allow_extra_args(false);
  command->add_option("--url", bench.urls, "serve: another server, http://HOST:PORT, to measure beside; repeatable")
      ->allow_extra_args(false);
  add_sizes(*command, bench.sizes);
  command
      ->add_option("--repeats", bench.repeats, "number of samples, of which the median is taken (5), or of pairs (15)")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--json", options->json, "write the figures with all samples to this file");
  command->add_option("--compare", options->compare, "show the figures beside those of an earlier --json file");
  command->add_option("--save-model", options->save_model,
                      "write the checkpoint of --shape to this folder, for other programs, and measure nothing");
  command->add_option("--trace", bench.trace, "write a Chrome trace of the engine's steps to this file");
  command->callback([options] { run(*options); });
}

}  // namespace mortise
