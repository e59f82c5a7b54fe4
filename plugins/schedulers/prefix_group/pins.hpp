// plugins/schedulers/prefix_group/pins.hpp: which prefixes stay in the cache. While members of a turn wait, one of them
// holds the group's prefix, from when it has been computed; it is let go with the turn.
#pragma once

#include <span>

#include "schedulers/common/planner.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::prefix_group {

// Adds the pins to a plan that `planner` made of `order`. A pin is left out, or let go, when it could keep somebody of
// the order from running to its end although nothing else runs.
void plan_pins(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Planner& planner,
               std::span<const scheduling::Place> order, mortise_schedule_plan& out);

}  // namespace mortise::prefix_group
