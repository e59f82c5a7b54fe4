// plugins/schedulers/prefix_group/pins.hpp: chooses the prefixes that stay in the cache. While members of a turn wait,
// one of them pins the group's prefix as soon as it is computed. The pin ends with the turn.
#pragma once

#include <span>

#include "schedulers/common/planner.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::prefix_group {

// Adds the pins to a plan that `planner` made from `order`. A pin is left out, or ended, if it could keep a request of
// the order from running to its end even when nothing else runs.
void plan_pins(Backlog& backlog, const mortise_schedule_view& view, const scheduling::Planner& planner,
               std::span<const scheduling::OrderEntry> order, mortise_schedule_plan& out);

}  // namespace mortise::prefix_group
