// plugins/attention/span_cpu/shared_prefix.hpp: decides which spans of the batch's prefix groups are read once for all
// members.
#pragma once

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// Chooses the prefix groups whose spans are read once for all members: fills plan.prefixes and the rows gathered for
// each. A group is chosen if that saves reading: it has a whole span beyond its parent's spans, and the rows of its
// members fill fewer units together than apart. A sequence with enough rows to fill units by itself is left out.
// REQUIRES: plan.window is set and PagedKv::check_groups() has passed.
void find_shared_prefixes(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

// Return the first span that a sequence sees, and the first span that no shared prefix covers for it.
int32_t first_visible_span(const mortise_batch& batch, int32_t seq, int32_t window);
int32_t first_own_span(const Plan& plan, int32_t seq);

}  // namespace mortise::span_cpu
