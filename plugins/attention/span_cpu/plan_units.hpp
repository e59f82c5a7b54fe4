// plan_units.hpp: from the blocks of a plan to units, their partials, and tasks.
#pragma once

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// Fills plan.rounds, priors, partial_floats and what the prefixes know of their partials. REQUIRES: plan.blocks and
// shares are complete; blocks of one sequence, and of one prefix, follow each other.
void make_units(const PlanShape& shape, Plan& plan);

}  // namespace mortise::span_cpu
