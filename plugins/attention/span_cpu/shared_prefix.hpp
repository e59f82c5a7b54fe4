// shared_prefix.hpp: which spans of the batch's prefix groups are read for all members at once.
#pragma once

#include <string>

#include "attention/span_cpu/plan.hpp"

namespace mortise::span_cpu {

// What is wrong with the batch's prefix groups, by the rules of mortise/batch.h; empty: nothing. REQUIRES: the rest of
// the batch has been checked.
std::string fault_of_groups(const mortise_batch& batch);

// Fills plan.prefixes and whose rows are gathered for each. A group is one where that saves reading: it has a whole
// span that its parent has not, and the rows of its members fill fewer units together than apart. A run of so many rows
// that they fill units by themselves stays out. REQUIRES: plan.window is set, the groups have no fault.
void find_shared_prefixes(const mortise_batch& batch, const PlanShape& shape, Plan& plan);

// The first span that a run sees, and the first that no shared prefix covers for it.
int32_t first_visible_span(const mortise_batch& batch, int32_t seq, int32_t window);
int32_t first_own_span(const Plan& plan, int32_t seq);

}  // namespace mortise::span_cpu
