// plugins/schedulers/fcfs/order.hpp: first come, first served: orders all sequences by priority (lower first), then
// arrival.
#pragma once

#include <vector>

#include "schedulers/common/planner.hpp"

namespace mortise::fcfs {

std::vector<scheduling::OrderEntry> order_by_arrival(const mortise_schedule_view& view);

}  // namespace mortise::fcfs
