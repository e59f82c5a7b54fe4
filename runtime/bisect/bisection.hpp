// runtime/bisect/bisection.hpp: finds the operation in which two pipelines of one numerics id first differ over a
// request, and the part that brings the difference. It runs the request in both, first with as much held equal as can
// be, then with less, until a difference shows.
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

// How the two pipelines run the request. Each holds less equal than the one before.
enum class BisectSetting {
  kSameSteps,   // alone, without drafts, with the old scheduler in both
  kOwnSteps,    // alone, with scheduler and drafts as each script has them
  kWithOthers,  // so, among the requests around it
};
const char* describe(BisectSetting setting);

// One pipeline with one part of the other. The old one gets each part of the new one that differs; if none of these
// exchanges brings a difference, the new one gets each of the old one's.
struct Exchange {
  std::string part;                                              // "attention", "kv_cache", ...
  bool back = false;                                             // the new pipeline with the old one's part
  enum class Outcome { kDiffers, kEqual, kImpossible } outcome;  // beside the old pipeline
  std::string detail;  // kImpossible: why; kDiffers: "" or which place is the first here
};

struct Bisection {
  BisectSetting setting;  // in which the difference showed; the last one if it did not
  TraceComparison traces;
  Comparison results;               // of the request itself, in this setting
  std::string elements;             // of the first difference: what the operation wrote, in both
  std::vector<Exchange> exchanges;  // of the parts that differ; empty without a difference

  bool differs() const { return traces.first.has_value() || results.first.has_value(); }
};

// Who follows a search.
struct BisectEvents {
  std::function<void(const std::string&)> runs;  // what is about to run
  std::function<void(const Bisection&)> found;   // the place of a difference is known; parts are exchanged next
};

// `requests[traced]` is the request to trace; the others run beside it in the last setting. Each run opens its pipeline
// and closes it, so one model at a time is in memory. Throws what run_traced() throws.
Bisection bisect(const PipelineDescription& old_pipeline, const PipelineDescription& new_pipeline,
                 std::span<const Request> requests, std::size_t traced, const BisectEvents& events);

}  // namespace mortise
