// plan_units.hpp: turns the blocks of a plan into units, places for their partials, and tasks.
#pragma once

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// Fills plan.rounds, priors, partial_floats and the prefixes' places for partials.
// REQUIRES: plan.blocks and shares are complete; blocks of one sequence, and of one prefix, are consecutive.
void make_units(const PlanShape& shape, Plan& plan);

}  // namespace mortise::span_cpu
