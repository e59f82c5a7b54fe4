// runtime/cli/plugin/check.cpp: `mortise plugin check FILE`: runs the conformance suite.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/plugin/case_progress.hpp"
#include "cli/plugin/check_options.hpp"
#include "cli/plugin/commands.hpp"
#include "conformance/suite.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using namespace conformance;

struct Arguments {
  CheckOptions check;
  Selection selection;
  std::string level = "quick", options, line;
  bool lists = false, json = false;
  int seconds = 60;
};

std::string kinds_of(const Case& rule) {
  if (rule.kinds == kOfFile) return "file";
  if (rule.kinds == kOfAll) return "all kinds";
  std::string names;
  for (const PartKind kind : kAllKinds) {
    if ((rule.kinds & of_kind(kind)) != 0) names += (names.empty() ? "" : ", ") + std::string(kind_name(kind));
  }
  return names;
}

void list_cases() {
  for (const Case& rule : all_cases()) fmt::print("{:26}  {:20}  {}\n", rule.name, kinds_of(rule), rule.sentence);
}

void print_finding(const CheckOptions& check, const Finding& finding) {
  const CaseResult& result = finding.result;
  const std::string owner = finding.component.empty() ? "file" : finding.component;
  if (result.outcome == Outcome::kFailed) {
    fmt::print("FAILED  {}  {}\n        {}\n        {}\n", owner, finding.rule->name, finding.rule->sentence,
               result.text);
    if (!result.output.empty()) fmt::print("        it wrote: {}\n", result.output);
    fmt::print("        again: mortise plugin check {} --reproduce {}\n", check.file.string(),
               finding.reproduce_line());
  } else if (result.outcome == Outcome::kNotApplicable) {
    fmt::print("-       {}  {}: {}\n", owner, finding.rule->name, result.text);
  } else {
    fmt::print("passed  {}  {}  ({:.1f} s)\n", owner, finding.rule->name, result.seconds);
  }
  std::fflush(stdout);
}

Level level_of(const std::string& name) {
  return name == "quick" ? Level::kQuick : name == "full" ? Level::kFull : Level::kFuzz;
}

void check_plugin(Arguments& arguments) {
  if (arguments.lists) return list_cases();
  if (arguments.check.file.empty()) fail("plugin check: name a plugin file, or --list");
  check_is_plugin_file("plugin check", arguments.check.file);
  arguments.check.level = level_of(arguments.level);
  if (!arguments.options.empty()) arguments.check.options = read_plugin_options(arguments.options);
  if (!arguments.line.empty()) apply_reproduce_line(arguments.line, arguments.check, arguments.selection);
  RunLimits limits;
  limits.time = std::chrono::seconds(arguments.seconds);
  std::size_t counts[3] = {};
  CaseProgress progress;
  SuiteEvents events = progress.events();
  events.on_finding = [&](const Finding& finding) {
    ++counts[static_cast<std::size_t>(finding.result.outcome)];
    if (arguments.json) return;
    progress.erase();
    print_finding(arguments.check, finding);
  };
  const auto findings = run_suite(arguments.check, arguments.selection, limits, events);
  progress.erase();
  if (arguments.json) {
    fmt::print("{}\n", report(arguments.check, findings).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{} cases: {} passed, {} failed, {} not applicable\n", findings.size(), counts[0], counts[1], counts[2]);
  }
  std::fflush(stdout);
  if (counts[static_cast<std::size_t>(Outcome::kFailed)] > 0) throw CLI::RuntimeError(EXIT_FAILURE);
}

}  // namespace

void add_plugin_check_command(CLI::App& plugin) {
  CLI::App* command =
      plugin.add_subcommand("check", "run the conformance suite on a plugin file, each case in a process of its own");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->check.file, "the plugin file");
  command->add_option("--component", arguments->selection.component, "check only the component of this name");
  command->add_option("--case", arguments->selection.cases,
                      "run only this case, or all cases that begin with NAME. (repeatable)");
  command->add_option("--level", arguments->level, "quick, full (ten times as many drawn inputs) or fuzz (for minutes)")
      ->check(CLI::IsMember({"quick", "full", "fuzz"}))
      ->capture_default_str();
  command->add_option("--minutes", arguments->selection.fuzz_minutes, "how long --level fuzz repeats random cases")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--seed", arguments->check.seed, "of the drawn inputs")->capture_default_str();
  command->add_option("--reproduce", arguments->line, "run one finding again: COMPONENT/CASE/SEED, as in a report");
  command->add_option("--options", arguments->options,
                      "the component's options as a JSON object, for those without a default");
  command->add_option("--timeout", arguments->seconds, "seconds that a case may take")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("--list", arguments->lists, "lists all cases");
  command->add_flag("--json", arguments->json, "print the report as JSON");
  command->callback([arguments] { check_plugin(*arguments); });
}

}  // namespace mortise
