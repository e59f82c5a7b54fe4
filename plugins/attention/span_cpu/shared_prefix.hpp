// shared_prefix.hpp: which spans of the batch's prefix groups are read for all members at once.
#pragma once

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// Chooses the prefix groups whose spans are read once for all members: fills plan.prefixes and the rows gathered for
// each. A group is chosen where that saves reading: it has a whole span beyond its parent, and the rows of its members
// fill fewer units together than apart. A run whose rows fill units by themselves stays out. REQUIRES: plan.window is
// set and PagedKv::check_groups() has passed.
void find_shared_prefixes(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

// The first span that a run sees, and the first that no shared prefix covers for it.
int32_t first_visible_span(const mortise_batch& batch, int32_t seq, int32_t window);
int32_t first_own_span(const Plan& plan, int32_t seq);

}  // namespace mortise::span_cpu
