// A scheduler that schedules nothing: enough to be taken by the loader.
#include "mortise/plugin.hpp"
#include "mortise/scheduler.h"

namespace {

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return mortise::guard(error, "create", [&] { *instance = new mortise::Options(args->options); });
}
void destroy(void* instance) {
  delete static_cast<mortise::Options*>(instance);
}
mortise_status events(mortise_scheduler*, const mortise_schedule_events*, mortise_error*) {
  return MORTISE_OK;
}
mortise_status plan(mortise_scheduler*, const mortise_schedule_view*, mortise_schedule_plan*, mortise_error*) {
  return MORTISE_OK;
}

constexpr mortise_scheduler_table kTable = {sizeof(mortise_scheduler_table), 0, events, plan};
constexpr mortise_component kOutside = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_SCHEDULER,
    0,
    MORTISE_CAP_PREFIX_GROUPS,
    "outside",
    "a scheduler from outside of the repository",
    R"({"type": "object", "properties": {"depth": {"title": "of the queue", "type": "integer", "default": 4}}})",
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    nullptr};

}  // namespace

MORTISE_PLUGIN("org.example.outside", "Somebody", "0.3.0", "MIT", &kOutside)
