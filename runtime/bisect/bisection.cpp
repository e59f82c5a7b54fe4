#include "bisect/bisection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bisect/traced_run.hpp"
#include "error.hpp"

namespace mortise {
namespace {

constexpr ComparisonNames kNames = {"old", "new"};

bool same_proposers(const PipelineDescription& a, const PipelineDescription& b) {
  return a.speculation == b.speculation &&
         std::ranges::equal(a.proposers, b.proposers,
                            [](const PartDescription& x, const PartDescription& y) { return same_part(x, y); });
}

// A part of a pipeline that can be exchanged by itself.
struct ExchangeablePart {
  const char* name;
  bool (*same)(const PipelineDescription& a, const PipelineDescription& b);
  void (*take)(PipelineDescription& into, const PipelineDescription& from);
};

template <PartDescription PipelineDescription::*Part>
bool same(const PipelineDescription& a, const PipelineDescription& b) {
  return same_part(a.*Part, b.*Part);
}
template <PartDescription PipelineDescription::*Part>
void take(PipelineDescription& into, const PipelineDescription& from) {
  into.*Part = from.*Part;
}
template <PartDescription PipelineDescription::*Part>
constexpr ExchangeablePart exchangeable(const char* name) {
  return {name, same<Part>, take<Part>};
}

constexpr ExchangeablePart kParts[] = {
    exchangeable<&PipelineDescription::device>("device"),
    exchangeable<&PipelineDescription::model>("model"),
    exchangeable<&PipelineDescription::attention>("attention"),
    {"kv_cache", [](const PipelineDescription& a, const PipelineDescription& b) { return a.kv_cache == b.kv_cache; },
     [](PipelineDescription& into, const PipelineDescription& from) { into.kv_cache = from.kv_cache; }},
    exchangeable<&PipelineDescription::scheduler>("scheduler"),
    {"proposer", same_proposers,
     [](PipelineDescription& into, const PipelineDescription& from) {
       into.proposers = from.proposers;
       into.speculation = from.speculation;
     }},
};

// One setting, and the runs that were made in it.
class Trial {
 public:
  Trial(BisectSetting setting, const PipelineDescription& old_pipeline, const PipelineDescription& new_pipeline,
        std::span<const Request> requests, std::size_t traced)
      : old_(old_pipeline), new_(new_pipeline), requests_(requests), traced_(traced) {
    result_.setting = setting;
    if (setting != BisectSetting::kWithOthers) {
      requests_ = requests.subspan(traced, 1);
      traced_ = 0;
    }
    if (setting != BisectSetting::kSameSteps) return;
    new_.scheduler = old_.scheduler;
    old_.proposers.clear();
    new_.proposers.clear();
    new_.speculation = old_.speculation;
    read_shared_options(new_);
  }

  bool differs() {
    old_run_ = run_traced(old_, requests_, traced_);
    const TracedRun new_run = run_traced(new_, requests_, traced_);
    result_.traces = compare_traces(old_run_.view(), new_run.view());
    result_.results = compare(old_run_.result, new_run.result, kNames);
    return result_.differs();
  }

  // Runs both pipelines again and keeps the differing output of the operation.
  void read_elements() {
    if (!result_.traces.first) return;
    const FirstDifference& first = *result_.traces.first;
    const std::vector<std::byte> before = output(old_, first.choice), after = output(new_, first.new_choice);
    result_.elements = describe_elements(first.op.dtype, first.op.row, before, after);
    if (result_.elements.empty()) {
      result_.elements = "in a second run, both wrote equal bits there: a part does not always compute the same result";
    }
  }

  void exchange_parts(const std::function<void(const std::string&)>& tell) {
    std::vector<const ExchangeablePart*> different;
    for (const ExchangeablePart& part : kParts) {
      if (!part.same(old_, new_)) different.push_back(&part);
    }
    if (different.size() == 1) {  // exchanging the only different part would give the new pipeline
      result_.exchanges.push_back({different.front()->name, /*back=*/false, Exchange::Outcome::kDiffers, ""});
      return;
    }
    bool brought = false;
    for (const ExchangeablePart* part : different) {
      tell(fmt::format("the old pipeline with the new {}", part->name));
      result_.exchanges.push_back(exchange(*part, /*back=*/false));
      brought = brought || result_.exchanges.back().outcome == Exchange::Outcome::kDiffers;
    }
    if (brought) return;
    for (const ExchangeablePart* part : different) {
      tell(fmt::format("the new pipeline with the old {}", part->name));
      result_.exchanges.push_back(exchange(*part, /*back=*/true));
    }
  }

  const Bisection& result() const { return result_; }
  Bisection take() { return std::move(result_); }

 private:
  std::vector<std::byte> output(const PipelineDescription& pipeline, std::int32_t choice) const {
    const FirstDifference& first = *result_.traces.first;
    const TracedRun run = run_traced(pipeline, requests_, traced_, WantedOutput{choice, first.position, first.op.key});
    const auto rows = run.trace->valid_rows(run.sequences);
    const auto row = rows.find({choice, first.position});
    return row == rows.end() ? std::vector<std::byte>() : run.trace->rows()[row->second].captured;
  }

  Exchange exchange(const ExchangeablePart& part, bool back) const {
    PipelineDescription mixed = back ? new_ : old_;
    part.take(mixed, back ? old_ : new_);
    try {
      read_shared_options(mixed);
      const TracedRun run = run_traced(mixed, requests_, traced_);
      const TraceComparison traces = compare_traces(old_run_.view(), run.view());
      if (!traces.first && !compare(old_run_.result, run.result, kNames).first) {
        return {part.name, back, Exchange::Outcome::kEqual, ""};
      }
      const auto& here = result_.traces.first;
      const bool same_place =
          here.has_value() == traces.first.has_value() &&
          (!here || (here->op.key == traces.first->op.key && here->position == traces.first->position));
      return {part.name, back, Exchange::Outcome::kDiffers,
              same_place     ? ""
              : traces.first ? fmt::format("first at position {}, {}", traces.first->position, traces.first->where)
                             : "in the results alone"};
    } catch (const Error& error) {
      return {part.name, back, Exchange::Outcome::kImpossible, error.what()};
    }
  }

  PipelineDescription old_, new_;
  std::span<const Request> requests_;
  std::size_t traced_;
  TracedRun old_run_;
  Bisection result_;
};

}  // namespace

const char* describe(BisectSetting setting) {
  switch (setting) {
    case BisectSetting::kSameSteps:
      return "alone, without drafts, in both with the scheduler of OLD";
    case BisectSetting::kOwnSteps:
      return "alone, with scheduler and drafts as each script has them";
    case BisectSetting::kWithOthers:
      break;
  }
  return "among the requests around it, with scheduler and drafts as each script has them";
}

Bisection bisect(const PipelineDescription& old_pipeline, const PipelineDescription& new_pipeline,
                 std::span<const Request> requests, std::size_t traced, const BisectEvents& events) {
  std::vector<BisectSetting> settings = {BisectSetting::kSameSteps};
  const bool own_steps = !same_part(old_pipeline.scheduler, new_pipeline.scheduler) ||
                         !old_pipeline.proposers.empty() || !new_pipeline.proposers.empty();
  if (own_steps) settings.push_back(BisectSetting::kOwnSteps);
  if (requests.size() > 1) settings.push_back(BisectSetting::kWithOthers);
  for (std::size_t i = 0;; ++i) {
    events.runs(fmt::format("the request {}", describe(settings[i])));
    Trial trial(settings[i], old_pipeline, new_pipeline, requests, traced);
    const bool differs = trial.differs();
    if (differs) {
      events.runs("it again, for the values");
      trial.read_elements();
      events.found(trial.result());
      trial.exchange_parts(events.runs);
    }
    if (differs || i + 1 == settings.size()) return trial.take();
  }
}

}  // namespace mortise
