// plugins/attention/span_cpu/plan_units.hpp: turns the row blocks of a plan into units, places for their partials, and
// tasks.
#pragma once

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// Fills plan.rounds, priors, partial_floats and the prefixes' places for partials. REQUIRES: plan.row_blocks and shares
// are complete; row blocks of one sequence, and of one prefix, are consecutive.
void make_units(const PlanShape& shape, Plan& plan);

}  // namespace mortise::span_cpu
