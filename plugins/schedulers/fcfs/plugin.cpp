// plugins/schedulers/fcfs/plugin.cpp: the component table. An instance is its options: what happened before does not
// matter to this policy, so events are not kept.
#include "mortise/plugin.hpp"
#include "schedulers/common/options.hpp"
#include "schedulers/fcfs/order.hpp"

namespace mortise::fcfs {
namespace {

using scheduling::Limits;

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "fcfs", [&] { *instance = new Limits(scheduling::limits_of(args)); });
}

void destroy(void* instance) {
  delete static_cast<Limits*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status events(mortise_scheduler*, const mortise_schedule_events*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status plan(mortise_scheduler* scheduler, const mortise_schedule_view* view, mortise_schedule_plan* out,
                    mortise_error* error) {
  return guard(error, "plan", [&] {
    const auto seen = known(view);
    scheduling::Planner planner(seen, *reinterpret_cast<const Limits*>(scheduler), order_by_arrival(seen));
    planner.plan();
    planner.write(*out);
  });
}

constexpr mortise_scheduler_table kTable = {sizeof(mortise_scheduler_table), 0, events, plan};

constexpr mortise_component kFcfs = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_SCHEDULER,
    0,
    MORTISE_CAP_EXACT,
    "fcfs",
    "first come, first served: continuous batching with chunked prefill and priorities",
    scheduling::kLimitsSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace mortise::fcfs

MORTISE_PLUGIN("mortise.fcfs", "Mortise", "0.1.0", "Apache-2.0", &mortise::fcfs::kFcfs)
