// plugins/schedulers/prefix_group/scheduler.hpp: the policy as one object; the README describes what it does and
// guarantees. Not thread-safe: the host makes one call at a time.
#pragma once

#include "schedulers/common/options.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::prefix_group {

// An instance of the scheduler. Invariant: serial_ differs from plan to plan. Not thread-safe: the host makes one call
// at a time.
class Scheduler {
 public:
  Scheduler(const mortise_host*, const Options& options) : limits_(scheduling::limits_of(options)) {}

  void events(const mortise_schedule_events& events);
  void plan(const mortise_schedule_view& view, mortise_schedule_plan& out);

  std::size_t num_sequences() const { return backlog_.num_requests(); }
  const Backlog& backlog() const { return backlog_; }

 private:
  const scheduling::Limits limits_;
  Backlog backlog_;
  uint64_t serial_ = 0;
};

}  // namespace mortise::prefix_group
