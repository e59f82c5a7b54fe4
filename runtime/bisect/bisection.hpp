// runtime/bisect/bisection.hpp: finds the operation in which two pipelines with one numerics id first differ for a
// request, and the part that causes the difference. Runs the request in both pipelines, first with as much as possible
// held equal, then with less, until there is a difference.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bisect/first_difference.hpp"
#include "engine/request.hpp"
#include "pipeline/description.hpp"
#include "replay/compare.hpp"

namespace mortise {

// How the two pipelines run the request. Each setting holds less equal than the preceding one.
enum class BisectSetting {
  kSameSteps,   // alone, without drafts, both with the old scheduler
  kOwnSteps,    // alone, with each script's scheduler and drafts
  kWithOthers,  // like kOwnSteps, among other requests
};
const char* describe(BisectSetting setting);

// A pipeline with one part of the other one. The old pipeline gets each differing part of the new one. If none of these
// exchanges brings a difference, the new pipeline gets each part of the old one.
struct Exchange {
  std::string part;                                              // "attention", "kv_cache", ...
  bool back = false;                                             // the new pipeline with a part of the old one
  enum class Outcome { kDiffers, kEqual, kImpossible } outcome;  // compared with the old pipeline
  std::string detail;  // kImpossible: the reason; kDiffers: the first place, or ""
};

// The result of a search. A value.
struct Bisection {
  BisectSetting setting;  // in which the difference appeared; the last setting if there is none
  TraceComparison traces;
  Comparison results;               // of the request itself, in this setting
  std::string elements;             // where both outputs of the first different operation differ, by element
  std::vector<Exchange> exchanges;  // of the parts that differ; empty if there is no difference

  bool differs() const { return traces.first.has_value() || results.first.has_value(); }
};

// Callbacks that report the progress of a search.
struct BisectEvents {
  std::function<void(const std::string&)> runs;  // called before each run, with its description
  std::function<void(const Bisection&)> found;   // the place of a difference is known; exchanges follow
};

// `requests[traced]` is the request to trace; the others run beside it in the last setting. Each run opens and closes
// its pipeline, so only one model at a time is in memory. Throws the Errors of run_traced().
Bisection bisect(const PipelineDescription& old_pipeline, const PipelineDescription& new_pipeline,
                 std::span<const Request> requests, std::size_t traced, const BisectEvents& events);

}  // namespace mortise
