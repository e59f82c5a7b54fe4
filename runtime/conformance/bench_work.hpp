// runtime/conformance/bench_work.hpp: the work of each kind that `mortise plugin bench` measures.
#pragma once

#include <nlohmann/json.hpp>

#include "conformance/subject.hpp"

namespace mortise::conformance {

// Runs the work of the subject's kind. Returns {"what": [unit, value]}, with median times of its calls.
nlohmann::ordered_json measured_work(Subject& subject);

}  // namespace mortise::conformance
