// runtime/bisect/traced_run.hpp: runs requests through a pipeline of its own, with the rows of one of them traced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bisect/first_difference.hpp"
#include "bisect/row_trace.hpp"
#include "pipeline/description.hpp"
#include "replay/request_log.hpp"

namespace mortise {

struct TracedRun {
  std::unique_ptr<RowTrace> trace;
  std::vector<std::vector<std::int32_t>> sequences;  // of each choice of the traced request, prompt included
  RecordedRequest result;                            // of it

  TraceView view() const { return {*trace, sequences}; }
};

// Opens the pipeline, submits all requests in their order, and waits for requests[traced]; what runs then is aborted.
// The pipeline is closed when this returns. A request that asks for a proposer that the pipeline lacks runs without
// that wish. Throws an Error when the pipeline cannot be opened, when it refuses the request, or when that fails.
TracedRun run_traced(const PipelineDescription& pipeline, std::span<const Request> requests, std::size_t traced,
                     std::optional<WantedOutput> wanted = {});

}  // namespace mortise
