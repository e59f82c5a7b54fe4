// runtime/conformance/scheduler_driver.hpp: calls a scheduler under test as a host does, with arrays in guarded memory.
#pragma once

#include <string>

#include "conformance/part.hpp"
#include "conformance/simulated_engine.hpp"

namespace mortise::conformance {

// Returns the calls of `part`, which outlives them. The view and the events are read-only, end at guard pages, and are
// inaccessible after the call. Throws CaseFailed if a call fails, or changes a field of the plan that is the host's.
// `journal`: gets a line for each plan; may be null.
SchedulerCalls guarded_calls(Part& part, std::string* journal = nullptr);

}  // namespace mortise::conformance
