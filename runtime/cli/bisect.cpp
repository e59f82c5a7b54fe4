// mortise bisect: finds the operation in which two pipelines with one numerics id first differ for a request, and the
// part that causes the difference. Writes the report to standard output; the exit code is 1 if there is a difference.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <span>

#include "assembly/default_script.hpp"
#include "bisect/bisection.hpp"
#include "cli/commands.hpp"
#include "cli/stop_signals.hpp"
#include "cli/verify_options.hpp"
#include "counted.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// The number of lines around the chosen one that run beside it in the last setting: more than a step takes.
constexpr std::size_t kCompanyBefore = 256, kCompanyBehind = 64;

struct BisectOptions {
  VerifyOptions verify;
  std::size_t line = 0;  // 0: the first line that differs
};

PipelineDescription pipeline_named(const std::string& script, const std::string& name) {
  const PipelineScript loaded = load_pipelines(std::span(&script, 1), PluginCatalog::standard());
  const std::vector<PipelineDescription>& all = loaded.pipelines();
  const auto found = std::ranges::find(all, name, &PipelineDescription::name);
  return found == all.end() ? all.front() : *found;
}

// The request to trace, and the requests around it.
struct Chosen {
  std::size_t line = 0, request = 0, num_requests = 0;
  std::string pipeline, new_pipeline;
  std::vector<Request> requests;
  std::size_t traced = 0;  // index in requests
};

Chosen choose(const Verifier& verifier, std::size_t line_number, std::size_t request, const std::string& file) {
  std::size_t index = 0;
  std::optional<VerifiedLine> line;
  for (; index < verifier.num_lines(); ++index) {
    line = verifier.line(index);
    if (line->number == line_number) break;
    line.reset();
  }
  if (!line) fail("{}: line {} has no request", file, line_number);
  if (line->requests.empty() || line->new_pipeline.empty()) {
    fail("{}: line {}: is refused by a pipeline before it runs, so there is no operation to name", file, line_number);
  }
  Chosen chosen{
      line_number, std::min(request, line->requests.size() - 1), line->requests.size(), "", line->new_pipeline, {}, 0};
  chosen.pipeline = line->requests[chosen.request].pipeline;
  const std::size_t first = index - std::min(index, kCompanyBefore);
  const std::size_t end = std::min(verifier.num_lines(), index + 1 + kCompanyBehind);
  for (std::size_t i = first; i < end; ++i) {
    const VerifiedLine other = verifier.line(i);
    for (std::size_t k = 0; k < other.requests.size(); ++k) {
      if (other.requests[k].pipeline != chosen.pipeline) continue;
      if (i == index && k == chosen.request) chosen.traced = chosen.requests.size();
      chosen.requests.push_back(other.requests[k].request);
    }
  }
  return chosen;
}

void print_difference(const Chosen& chosen, const Bisection& found) {
  std::cout << fmt::format("run                {}\n", describe(found.setting));
  for (const std::string& stretch : found.traces.not_aligned) {
    std::cout << fmt::format("not compared       {}: the models call different operations there\n", stretch);
  }
  if (!found.traces.first) {
    std::cout << fmt::format(
        "first difference   in the results alone: {}\n"
        "compared           {} outputs of operations of {}, all equal: no operation of the device, the attention or "
        "the model makes the difference\n",
        *found.results.first, found.traces.num_compared, counted(found.traces.num_rows, "token"));
    return;
  }
  const FirstDifference& first = *found.traces.first;
  std::cout << fmt::format(
      "first difference   step {} (old) / step {} (new), request line {}{}, choice {}, position {}, {}\n"
      "values             {}\n"
      "before it          {} of operations were equal\n",
      first.old_step, first.new_step, chosen.line,
      chosen.num_requests > 1 ? fmt::format(" (request {} of {})", chosen.request + 1, chosen.num_requests) : "",
      first.choice, first.position, first.where, found.elements, counted(found.traces.num_equal, "output"));
  std::cout << fmt::format("results            {}\n", found.results.first.value_or("equal in this run")) << std::flush;
}

// Prints which parts are to blame. Exchanging them brings the difference, or if no exchange does, exchanging them back
// removes it.
void print_exchanges(const Bisection& found) {
  std::vector<std::string> guilty;
  bool back = false, impossible = false;
  for (const Exchange& exchange : found.exchanges) {
    using enum Exchange::Outcome;
    const char* const what = exchange.outcome == kDiffers ? "differs"
                             : exchange.outcome == kEqual ? "equal"
                                                          : "cannot run";
    std::cout << fmt::format("{}     {}: {}{}\n", exchange.back ? "NEW with OLD's" : "OLD with NEW's", exchange.part,
                             what, exchange.detail.empty() ? "" : ", " + exchange.detail);
    back = back || exchange.back;
    impossible = impossible || exchange.outcome == kImpossible;
    if (exchange.outcome == (exchange.back ? kEqual : kDiffers)) guilty.push_back("`" + exchange.part + "`");
  }
  if (guilty.empty()) {
    std::cout << "exchanging a single part neither causes nor removes the difference"
              << (impossible ? "" : ": it needs several of them together") << '\n';
  } else if (guilty.size() > 1) {
    std::cout << fmt::format("each of {} {} the difference on its own\n", fmt::join(guilty, ", "),
                             back ? "removes" : "causes");
  } else if (back) {
    std::cout << fmt::format("OLD's {} in NEW removes the difference\n", guilty.front());
  } else {
    std::cout << fmt::format("exchanging only {} causes the difference{}\n", guilty.front(),
                             found.exchanges.size() == 1 ? ": no other part differs" : "");
  }
}

int run(const BisectOptions& options) {
  Verifier verifier(options.verify);
  const Verification result = verifier.run(print_numerics);
  if (result.stopped) {
    std::cerr << "mortise: bisect: stopped before the end of the file\n";
    return StopSignals::exit_code();
  }
  print_verification(result);
  if (!result.first && options.line == 0) {
    std::cout << "all results are equal: there is no difference to examine (use --line to examine a request anyway)\n";
    return 0;
  }
  const bool is_first = result.first && (options.line == 0 || options.line == result.first->line);
  const Chosen chosen = choose(verifier, is_first ? result.first->line : options.line,
                               is_first ? result.first->request : 0, options.verify.input);
  const PipelineDescription old_pipeline = pipeline_named(options.verify.old_script, chosen.pipeline);
  const PipelineDescription new_pipeline = pipeline_named(options.verify.new_script, chosen.new_pipeline);
  BisectEvents events;
  events.runs = [](const std::string& what) { std::cerr << "mortise: bisect: runs " << what << '\n'; };
  events.found = [&](const Bisection& found) { print_difference(chosen, found); };
  const Bisection found = bisect(old_pipeline, new_pipeline, chosen.requests, chosen.traced, events);
  if (!found.differs()) {
    std::cout << fmt::format("{}: line {}, run {}, gave equal results, and {} of operations of {} were equal\n",
                             is_first ? "the difference did not occur again" : "no difference", chosen.line,
                             describe(found.setting), counted(found.traces.num_compared, "output"),
                             counted(found.traces.num_rows, "token"));
    return is_first ? 1 : 0;
  }
  print_exchanges(found);
  return 1;
}

}  // namespace

void add_bisect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bisect", "name the operation in which two pipelines first differ for a request, and the part that causes it");
  const auto options = std::make_shared<BisectOptions>();
  add_verify_options(*command, options->verify);
  command->add_option("--line", options->line, "examine the request in this line (default: the first that differs)")
      ->check(CLI::PositiveNumber);
  command->callback([options] {
    const int exit_code = run(*options);
    if (exit_code != 0) throw CLI::RuntimeError(exit_code);
  });
}

}  // namespace mortise
