// attention: runs paged and cascade over one cache, alternately.
#include "bench_command/prefix_attention.hpp"
#include "bench_command/scenarios.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

constexpr double kMillion = 1e6;

std::int64_t in_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) fail("{} {}: expected {} to {}", option, value, least, most);
  return value;
}

// The floor is the time to read each token's K and V once. paged reads them more often by design, so it has no floor.
Case time_case(const std::shared_ptr<PrefixAttention>& attention, std::size_t side, std::string name) {
  Case out;
  out.name = std::move(name);
  out.unit = "ms";
  out.higher_is_better = false;
  out.run = [attention, side](std::uint32_t) { return Outcome{attention->seconds(side) * 1e3, ""}; };
  if (side == PrefixAttention::kPaged) return out;
  out.floor = [attention](const Limits& limits) -> std::optional<double> {
    const auto seconds = floor_seconds(attention->least_work(), limits);
    if (!seconds) return std::nullopt;
    return *seconds * 1e3;
  };
  return out;
}

Case bytes_case(const std::shared_ptr<PrefixAttention>& attention, std::size_t side, std::string name) {
  Case out;
  out.name = std::move(name);
  out.unit = "MB";
  out.higher_is_better = false;
  out.run = [attention, side](std::uint32_t) {
    return Outcome{static_cast<double>(*attention->kv_bytes_read(side)) / kMillion, ""};
  };
  if (side == PrefixAttention::kPaged) return out;
  out.floor = [attention](const Limits&) { return std::optional(attention->least_work().bytes / kMillion); };
  return out;
}

std::string text_of(const PrefixWork& work) {
  return fmt::format("{} x ({} shared + {})", work.members, work.shared, work.own);
}

void add_cases(const std::shared_ptr<PrefixAttention>& attention, const PrefixWork& work, Scenario& scenario) {
  const std::string what = text_of(work);
  const auto add_pair = [&](const char* kind, const auto& make) {
    const std::size_t first = scenario.cases.size();
    scenario.cases.push_back(make(attention, PrefixAttention::kPaged, fmt::format("paged {}, {}", kind, what)));
    scenario.cases.push_back(make(attention, PrefixAttention::kCascade, fmt::format("cascade {}, {}", kind, what)));
    scenario.relations.push_back({fmt::format("paged over cascade {}, {}", kind, what), first + 1, first});
  };
  add_pair("step", time_case);
  const bool counted = attention->kv_bytes_read(PrefixAttention::kPaged).has_value() &&
                       attention->kv_bytes_read(PrefixAttention::kCascade).has_value();
  if (counted) add_pair("KV read", bytes_case);
}

}  // namespace

Scenario attention_scenario(const SubjectChoice& choice, const Sizes& sizes, std::string& device) {
  if (choice.shape == nullptr) {
    fail("bench attention: needs the heads of a model; name one of {} with --shape", model_shape_names());
  }
  if (sizes.batches.size() > 1) fail("--batch: only the scenario decode accepts several; give one");
  const auto script = std::make_shared<PipelineScript>(load_subject_script(choice));
  const PipelineDescription& description = script->pipelines().front();
  constexpr std::int64_t kMaxTokens = 1 << 20, kMaxMembers = 4096, kMaxInAll = 16 << 20;
  PrefixWork work{};
  work.members = in_range("--batch", sizes.batches.empty() ? 64 : sizes.batches.front(), 1, kMaxMembers);
  work.own = in_range("--own", sizes.own.value_or(208), 1, kMaxTokens);
  Scenario scenario{"attention", {}, {}, nullptr};
  for (const std::int64_t shared : sizes.shared ? std::vector{*sizes.shared} : std::vector<std::int64_t>{2000, 8192}) {
    work.shared = in_range("--shared", shared, 0, kMaxTokens);
    if (work.shared + work.members * work.own > kMaxInAll) {
      fail("bench attention: {}: these tokens make more than {}; use fewer", text_of(work), kMaxInAll);
    }
    const auto attention = std::make_shared<PrefixAttention>(description, *choice.shape, work);
    if (scenario.probes == nullptr) scenario.probes = attention->make_probes(description);
    device = device_text(attention->device());
    add_cases(attention, work, scenario);
  }
  return scenario;
}

}  // namespace mortise::bench
