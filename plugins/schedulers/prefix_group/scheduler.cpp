#include "schedulers/prefix_group/scheduler.hpp"

#include <algorithm>

#include "schedulers/prefix_group/admission.hpp"
#include "schedulers/prefix_group/pins.hpp"

namespace mortise::prefix_group {
namespace {

// A turn is worth this many full steps: long enough for a group of hundreds, short enough that the next request does
// not wait for minutes.
constexpr int64_t kStepsPerTurn = 16;

}  // namespace

void Scheduler::events(const mortise_schedule_events& events) {
  for (int32_t i = 0; i < events.num_events; ++i) {
    const uint64_t id = events.seq_ids[i];
    switch (events.kinds[i]) {
      case MORTISE_EVENT_ADDED:
        backlog_.add(id, {events.tokens[i], static_cast<std::size_t>(events.num_tokens[i])}, events.max_new_tokens[i],
                     events.priorities[i], events.groups[i]);
        break;
      case MORTISE_EVENT_ENDED:
        backlog_.end(id);
        break;
      case MORTISE_EVENT_PREFIX_RESIDENT:
        backlog_.pin_resident(id, events.num_tokens[i]);
        break;
      case MORTISE_EVENT_PREFIX_EVICTED:
        backlog_.pin_evicted(id);
        break;
      default:
        break;  // an event of a later version
    }
  }
}

void Scheduler::plan(const mortise_schedule_view& view, mortise_schedule_plan& out) {
  backlog_.settle(view, kStepsPerTurn * std::min(view.token_budget, limits_.max_batched_tokens));
  Admission admission(backlog_, view, limits_, ++serial_);
  const std::vector<scheduling::OrderEntry> order = admission.order();
  scheduling::Planner planner(view, limits_, order);
  planner.plan();
  planner.write(out);
  std::vector<PlannedStart> starts = admission.starts();
  std::erase_if(starts, [&](const PlannedStart& start) {
    return !planner.schedules(backlog_.view_index(*backlog_.find(start.id)));
  });
  backlog_.set_planned(std::move(starts));
  plan_pins(backlog_, view, planner, order, out);
}

}  // namespace mortise::prefix_group
