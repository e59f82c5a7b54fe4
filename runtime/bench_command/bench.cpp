#include "bench_command/bench.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "bench_command/machine.hpp"
#include "error.hpp"
#include "trace/trace_file.hpp"

namespace mortise::bench {
namespace {

constexpr int kDefaultRepeats = 5, kDefaultPairs = 15, kDefaultTurns = 7;

using SubjectScenario = Scenario (*)(Subject&, const Sizes&);
struct Named {
  const char* name;
  SubjectScenario make;  // null: the scenario needs no engine in this process
};
constexpr Named kScenarios[] = {
    {"decode", decode_scenario},
    {"prefill", prefill_scenario},
    {"batch", batch_scenario},
    {"groups", groups_scenario},
    {"score", score_scenario},
    {"startup", nullptr},
    {"limits", nullptr},
    {"speculation", nullptr},
    {"attention", nullptr},
    {"memory", nullptr},
    {"prediction", prediction_scenario},
    {"serve", nullptr},
};

SubjectScenario scenario_named(const std::string& name) {
  for (const Named& scenario : kScenarios) {
    if (name == scenario.name) return scenario.make;
  }
  fail("bench {}: no such scenario", name);
}

std::vector<Setting> parse_settings(const std::vector<std::string>& texts) {
  std::vector<Setting> settings;
  for (const std::string& text : texts) settings.push_back(parse_setting(text));
  return settings;
}

SubjectChoice first_choice(const BenchOptions& options) {
  SubjectChoice choice;
  choice.script = options.script;
  if (!options.shape.empty()) choice.shape = &model_shape(options.shape);
  if (!options.draft_shape.empty()) choice.draft_shape = &model_shape(options.draft_shape, "--draft-shape");
  choice.settings = parse_settings(options.settings);
  if (options.scenario == "prediction") choice.settings.push_back(parse_setting("kv_cache.prefix_cache=false"));
  return choice;
}

// Returns the second side of --against: the same pipeline with further settings, or another script.
SubjectChoice second_choice(const BenchOptions& options) {
  SubjectChoice choice = first_choice(options);
  for (const std::string& text : options.against) {
    if (text.find('=') == text.npos) {
      choice.script = text;
    } else {
      choice.settings.push_back(parse_setting(text));
    }
  }
  return choice;
}

// A pipeline and the scenario that runs on it. Members are destroyed in reverse order.
struct Side {
  std::unique_ptr<Subject> subject;
  Scenario scenario;
  std::string device;
};

Side open_side(const BenchOptions& options, const SubjectChoice& choice, TraceFile* trace) {
  Side side;
  if (const SubjectScenario make = scenario_named(options.scenario)) {
    side.subject = std::make_unique<Subject>(choice, trace);
    side.scenario = make(*side.subject, options.sizes);
    side.device = device_text(side.subject->device());
  } else if (options.scenario == "attention") {
    side.scenario = attention_scenario(choice, options.sizes, side.device);
  } else if (options.scenario == "serve") {
    side.scenario = serve_scenario(choice, options.sizes, options.urls);
    side.device = processor_name();
  } else {
    side.scenario = options.scenario == "memory" ? memory_scenario(choice, options.sizes) : startup_scenario(choice);
    side.device = processor_name();
  }
  return side;
}

ReportLimits summary(const std::vector<Limits>& samples, const LimitProbes& probes) {
  std::vector<double> reads, operations, latencies, links;
  for (const Limits& sample : samples) {
    reads.push_back(sample.read_bytes_per_s);
    if (sample.operations_per_s) operations.push_back(*sample.operations_per_s);
    if (!sample.links) continue;
    latencies.push_back(sample.links->latency_s);
    links.push_back(sample.links->bytes_per_s);
  }
  ReportLimits out{
      {median(reads), std::nullopt}, probes.movement(), probes.working_set_bytes(), probes.unit(), probes.num_ranks()};
  if (!operations.empty()) out.limits.operations_per_s = median(operations);
  if (!links.empty()) out.limits.links = LinkLimits{median(latencies), median(links)};
  return out;
}

// Measures the limits of the script's device, or of the processors if there is no script or the processors are its
// device.
void measure_limits_of(const BenchOptions& options, Report& report) {
  if (!options.script.empty()) {
    const PipelineScript script = load_subject_script(first_choice(options));
    if (const auto device = ProbedDevice::open(script.pipelines().front())) {
      const std::int32_t ranks = device->num_ranks();
      const std::string which = ranks == 1 ? "the device" : fmt::format("the first of {} devices", ranks);
      report.subject = which + " of " + options.script;
      report.device = device_text(device->info());
      report.figures = measure_limits(report.repeats, *device);
      return;
    }
  }
  report.subject = "this machine";
  report.device = processor_name();
  report.figures = measure_limits(report.repeats);
}

// Throws an Error if the sides do different work, because their pairs could not be compared.
void check_same_work(const Scenario& a, const Scenario& b) {
  for (std::size_t i = 0; i < a.cases.size(); ++i) {
    if (a.cases[i].name != b.cases.at(i).name) {
      fail("--against: one side would run '{}' and the other '{}'; say how much with --prompt", a.cases[i].name,
           b.cases[i].name);
    }
  }
}

void check_options(const BenchOptions& options) {
  scenario_named(options.scenario);
  const bool is_limits = options.scenario == "limits";
  const bool has_more =
      !options.shape.empty() || !options.settings.empty() || !options.against.empty() || !options.trace.empty();
  if (is_limits && has_more) {
    fail(
        "bench limits: measures only the machine or the device of a script; leave out --shape, --set, --against "
        "and --trace");
  }
  if (!options.urls.empty() && options.scenario != "serve") fail("--url: is for the scenario serve");
  if ((options.scenario == "startup" || options.scenario == "memory" || options.scenario == "serve") &&
      !options.trace.empty()) {
    fail("bench {}: runs in other processes, which --trace cannot follow; leave it out", options.scenario);
  }
  if (options.scenario == "attention" && (!options.against.empty() || !options.trace.empty())) {
    fail("bench attention: compares its own two sides and runs no engine; leave out --against and --trace");
  }
  const bool in_turns = options.scenario == "speculation";
  if (in_turns && (!options.against.empty() || !options.trace.empty())) {
    fail(
        "bench speculation: compares its own two sides, which it opens several times; leave out --against and "
        "--trace");
  }
  if (!in_turns && (!options.sizes.rates.empty() || options.sizes.draft_tokens || !options.draft_shape.empty())) {
    fail("--rates, --draft-tokens and --draft-shape: are for the scenario speculation");
  }
  if (in_turns && options.repeats > static_cast<int>(kMaxPairs)) {
    fail("--repeats {}: at most {} turns", options.repeats, kMaxPairs);
  }
  const auto num_scripts = std::count_if(options.against.begin(), options.against.end(),
                                         [](const std::string& text) { return text.find('=') == text.npos; });
  if (num_scripts > 1) fail("--against: names {} scripts; give one, or settings PART.OPTION=VALUE", num_scripts);
  if (!options.against.empty() && options.repeats > static_cast<int>(kMaxPairs)) {
    fail("--repeats {}: at most {} pairs", options.repeats, kMaxPairs);
  }
}

}  // namespace

const std::vector<std::string>& scenario_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Named& scenario : kScenarios) out.emplace_back(scenario.name);
    return out;
  }();
  return names;
}

Report run_bench(const BenchOptions& options) {
  check_options(options);
  Report report;
  report.scenario = options.scenario;
  report.command = options.command;
  report.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const bool in_pairs = !options.against.empty();
  const bool in_turns = options.scenario == "speculation";
  report.repeats = options.repeats > 0 ? options.repeats
                   : in_turns          ? kDefaultTurns
                   : in_pairs          ? kDefaultPairs
                                       : kDefaultRepeats;
  if (options.scenario == "limits") {
    measure_limits_of(options, report);
    return report;
  }
  if (in_turns) {
    const SubjectChoice choice = first_choice(options);
    report.subject = choice.label();
    report.speculation = measure_speculation(choice, options.sizes, report.repeats, report.device);
    return report;
  }

  std::unique_ptr<TraceFile> trace;
  if (!options.trace.empty()) trace = std::make_unique<TraceFile>(options.trace);
  const SubjectChoice choice = first_choice(options);
  report.subject = choice.label();
  {
    const Side side = open_side(options, choice, trace.get());
    report.device = side.device;
    if (in_pairs) {
      const SubjectChoice other_choice = second_choice(options);
      const Side other = open_side(options, other_choice, nullptr);
      check_same_work(side.scenario, other.scenario);
      report.against = other_choice.label() + "; " + other.device;
      report.comparisons = measure_pairs(side.scenario, other.scenario, report.repeats);
    } else {
      Measurement measurement = measure(side.scenario, report.repeats);
      report.figures = std::move(measurement.figures);
      if (side.scenario.probes) report.limits = summary(measurement.limits, *side.scenario.probes);
    }
  }
  if (trace) trace->close();
  return report;
}

}  // namespace mortise::bench
