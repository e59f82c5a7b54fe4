// runtime/bisect/traced_run.hpp: runs requests through a pipeline of their own, and traces the rows of one request.
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

// The trace and the result of one request of a run. Owns the trace; used by one thread at a time.
struct TracedRun {
  std::unique_ptr<RowTrace> trace;
  std::vector<std::vector<std::int32_t>> sequences;  // of each choice of the traced request, including the prompt
  RecordedRequest result;                            // of the traced request

  TraceView view() const { return {*trace, sequences}; }
};

// Opens the pipeline, submits all requests in order, waits for requests[traced], and aborts the others. Closes the
// pipeline before it returns. If the pipeline does not have the proposer that a request chooses, the choice is ignored.
// Throws an Error if the pipeline cannot be opened, or if the traced request is refused or fails.
TracedRun run_traced(const PipelineDescription& pipeline, std::span<const Request> requests, std::size_t traced,
                     std::optional<WantedOutput> wanted = {});

}  // namespace mortise
