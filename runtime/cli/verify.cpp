// mortise verify: runs a file of requests in two pipelines and compares all results bit by bit. Writes the first
// difference and a summary to standard output; the exit code is 1 if there is a difference.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.hpp"
#include "cli/stop_signals.hpp"
#include "cli/verify_options.hpp"
#include "counted.hpp"
#include "jsonl/json_line.hpp"

namespace mortise {
namespace {

nlohmann::ordered_json to_json(const Verification& result) {
  nlohmann::ordered_json ids = nlohmann::ordered_json::array();
  for (const auto& [before, after] : result.numerics_ids) ids.push_back({{"old", before}, {"new", after}});
  nlohmann::ordered_json json = {{"equal", result.num_different == 0}, {"numerics_ids", std::move(ids)},
                                 {"requests", result.num_lines},       {"different", result.num_different},
                                 {"failed", result.num_failed},        {"tokens", result.num_tokens},
                                 {"logprobs", result.num_logprobs},    {"first", nullptr}};
  if (!result.first) return json;
  const LineDifference& first = *result.first;
  json["first"] = {{"line", first.line}, {"request", first.request}, {"what", first.what}};
  if (first.place) {
    json["first"]["choice"] = first.place->choice;
    json["first"]["position"] = first.place->position;
    json["first"]["text_before"] = first.before;
    json["first"]["old_text"] = first.old_text;
    json["first"]["new_text"] = first.new_text;
  }
  return json;
}

int run(const VerifyOptions& options, bool as_json) {
  Verifier verifier(options);
  const Verification result = verifier.run([&](const Verification& known) {
    if (!as_json) print_numerics(known);
  });
  if (result.stopped) {
    std::cerr << "mortise: verify: stopped before the end of the file\n";
    return StopSignals::exit_code();
  }
  const bool is_empty = result.num_lines == result.num_failed;  // equal, but this says nothing about the parts
  if (is_empty) {
    const std::string why = result.num_lines == 0
                                ? "it has no request"
                                : fmt::format("both pipelines refuse all of its {}", counted(result.num_lines, "line"));
    std::cerr << fmt::format(
        "mortise: verify: {}: nothing was compared: {}; give it requests as mortise batch reads them\n", options.input,
        why);
  }
  if (as_json) {
    std::cout << dump_line(to_json(result)) << std::endl;
  } else {
    print_verification(result);
    if (result.num_different > 0 && result.same_numerics()) {
      std::cout << "Both claim one numerics id, so this breaks their contract. To name the operation: mortise bisect "
                << options.old_script << ' ' << options.new_script << " -i " << options.input << '\n';
    } else if (result.num_different > 0) {
      std::cout << "Their numerics ids differ, so no contract is broken.\n";
    }
  }
  return result.num_different == 0 && !is_empty ? 0 : 1;
}

}  // namespace

void add_verify_options(CLI::App& command, VerifyOptions& options) {
  command.add_option("old", options.old_script, "pipeline script, or a checkpoint (its folder, or a GGUF file)")
      ->required();
  command.add_option("new", options.new_script, "the pipeline to compare it with")->required();
  command
      .add_option("-i,--input", options.input,
                  "file of requests, as batch reads it, or a log that --record has written")
      ->required();
}

void print_numerics(const Verification& result) {
  const auto& [before, after] = result.numerics_ids.back();
  if (before == after) {
    std::cout << fmt::format("numerics id        the same: {}\n", before) << std::flush;
  } else {
    std::cout << fmt::format("numerics id        differs, so results may: {}{}\n", describe_change(before, after),
                             numerics_remedy(before, after))
              << std::flush;
  }
}

void print_verification(const Verification& result) {
  if (result.first) {
    const LineDifference& first = *result.first;
    std::cout << fmt::format("first difference   line {}{}", first.line,
                             first.custom_id.empty() ? "" : " (" + first.custom_id + ")");
    if (first.num_requests > 1) std::cout << fmt::format(", request {} of {}", first.request + 1, first.num_requests);
    std::cout << ", " << first.what << '\n';
    if (first.place) {
      const auto quoted = [](const std::string& text) { return dump_line(nlohmann::ordered_json(text)); };
      std::cout << fmt::format("text before it     {}\ntext old           {}\ntext new           {}\n",
                               quoted(first.before), quoted(first.old_text), quoted(first.new_text));
    }
  }
  std::cout << fmt::format(
      "requests           {} compared, {} with differences\n"
      "tokens             {} compared\n"
      "log probabilities  {} compared\n",
      result.num_lines, result.num_different, result.num_tokens, result.num_logprobs);
  if (result.num_failed > 0) {
    std::cout << fmt::format("refused            {} by both, with the same text\n",
                             counted(result.num_failed, "request"));
  }
  std::cout << std::flush;
}

void add_verify_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "verify", "run a file of requests in two pipelines and compare all results bit by bit; exit code 1: they differ");
  const auto options = std::make_shared<VerifyOptions>();
  const auto as_json = std::make_shared<bool>(false);
  add_verify_options(*command, *options);
  command->add_flag("--json", *as_json, "print one JSON object instead of text");
  command->callback([options, as_json] {
    const int exit_code = run(*options, *as_json);
    if (exit_code != 0) throw CLI::RuntimeError(exit_code);
  });
}

}  // namespace mortise
