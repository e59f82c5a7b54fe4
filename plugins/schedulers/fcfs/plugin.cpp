// plugins/schedulers/fcfs/plugin.cpp: the component.
#include "mortise/plugin.hpp"
#include "mortise/scheduler.hpp"
#include "schedulers/common/options.hpp"
#include "schedulers/fcfs/order.hpp"

namespace mortise::fcfs {
namespace {

// This policy keeps nothing from step to step, so an instance is only its options and takes no events. Not thread-safe:
// the host makes one call at a time.
class Scheduler {
 public:
  Scheduler(const mortise_host*, const Options& options) : limits_(scheduling::limits_of(options)) {}

  void plan(const mortise_schedule_view& view, mortise_schedule_plan& out) {
    scheduling::Planner planner(view, limits_, order_by_arrival(view));
    planner.plan();
    planner.write(out);
  }

 private:
  const scheduling::Limits limits_;
};

constexpr mortise_component kFcfs = SchedulerComponent<Scheduler>::component(
    "fcfs", "first come, first served: continuous batching with chunked prefill and priorities",
    scheduling::kLimitsSchema);

}  // namespace
}  // namespace mortise::fcfs

MORTISE_PLUGIN("mortise.fcfs", "Mortise", "0.1.0", "Apache-2.0", &mortise::fcfs::kFcfs)
