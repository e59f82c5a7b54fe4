#include "conformance/plugin_bench.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "conformance/attention_scene.hpp"
#include "conformance/bench_work.hpp"
#include "loader/catalog.hpp"

namespace mortise::conformance {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// Returns the built-in part that a component of this kind is compared with.
const Component& built_in_part(PartKind kind) {
  static const std::map<PartKind, const char*> kNames = {{PartKind::kScheduler, "fcfs"},
                                                         {PartKind::kProposer, "ngram"},
                                                         {PartKind::kAttention, "paged"},
                                                         {PartKind::kDevice, "cpu"}};
  const auto found = kNames.find(kind);
  if (found == kNames.end()) {
    fail("plugin bench does not measure a {}: `mortise bench` measures one in a pipeline", kind_name(kind));
  }
  mortise_query query{};
  query.struct_size = sizeof query;
  if (kind == PartKind::kAttention) query.device = "cpu";
  return PluginCatalog::standard().select(kind, found->second, query);
}

// Returns {"what": [unit, value]} of one round, which runs in a child.
nlohmann::ordered_json run_round(const CheckOptions& check, const std::string& label, const RunLimits& limits) {
  const CaseResult result = run_in_child(limits, [&] {
    Subject subject(check, label, "bench");
    return measured_work(subject).dump();
  });
  if (result.outcome != Outcome::kPassed) fail("{}: {}", label, result.text);
  return nlohmann::ordered_json::parse(result.text);
}

}  // namespace

BenchReport bench_plugin(const CheckOptions& check, const std::string& component, int rounds, const RunLimits& limits) {
  const std::vector<Described> all = describe_file(check, limits);
  const auto chosen =
      std::ranges::find_if(all, [&](const Described& one) { return component.empty() || one.name == component; });
  if (chosen == all.end()) fail("{} has no component '{}'", check.file.string(), component);
  const Component& built_in = built_in_part(chosen->kind);
  CheckOptions other;
  other.file = built_in.file;
  BenchReport report{chosen->label, built_in.label(), rounds, {}};
  std::map<std::string, std::array<std::vector<double>, 2>> values;
  std::map<std::string, std::string> units;
  std::vector<std::string> order;
  for (int round = 0; round < rounds; ++round) {
    const std::array sides = {run_round(check, chosen->label, limits), run_round(other, built_in.label(), limits)};
    for (std::size_t side = 0; side < 2; ++side) {
      for (const auto& [what, figure] : sides[side].items()) {
        if (!units.contains(what)) order.push_back(what);
        units[what] = figure[0];
        values[what][side].push_back(figure[1]);
      }
    }
  }
  for (const std::string& what : order) {
    report.figures.push_back({what, units[what], median(values[what][0]), median(values[what][1])});
  }
  return report;
}

nlohmann::json to_json(const BenchReport& report) {
  auto figures = nlohmann::json::array();
  for (const Figure& figure : report.figures) {
    figures.push_back(
        {{"what", figure.what}, {"unit", figure.unit}, {"plugin", figure.plugin}, {"built_in", figure.built_in}});
  }
  return {{"component", report.component},
          {"built_in", report.built_in},
          {"rounds", report.rounds},
          {"figures", std::move(figures)}};
}

}  // namespace mortise::conformance
