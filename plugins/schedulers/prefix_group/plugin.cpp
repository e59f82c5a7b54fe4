// plugins/schedulers/prefix_group/plugin.cpp: the component table.
#include <cstring>

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "schedulers/common/options.hpp"
#include "schedulers/prefix_group/scheduler.hpp"

namespace mortise::prefix_group {
namespace {

mortise_status create(const mortise_host*, const mortise_create_args* args, void** instance, mortise_error* error) {
  return guard(error, "prefix_group", [&] { *instance = new Scheduler(scheduling::limits_of(args)); });
}

void destroy(void* instance) {
  delete static_cast<Scheduler*>(instance);
}

mortise_status supports(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}

mortise_status events(mortise_scheduler* scheduler, const mortise_schedule_events* events, mortise_error* error) {
  return guard(error, "events", [&] { reinterpret_cast<Scheduler*>(scheduler)->events(known(events)); });
}

mortise_status plan(mortise_scheduler* scheduler, const mortise_schedule_view* view, mortise_schedule_plan* out,
                    mortise_error* error) {
  return guard(error, "plan", [&] { reinterpret_cast<Scheduler*>(scheduler)->plan(known(view), *out); });
}

uint64_t num_sequences(void* instance) {
  return static_cast<const Scheduler*>(instance)->num_requests();
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {sizeof(mortise_sequences_table), 0, num_sequences};
  return std::strcmp(id, MORTISE_EXT_SEQUENCES) == 0 ? &kSequences : nullptr;
}

constexpr mortise_scheduler_table kTable = {sizeof(mortise_scheduler_table), 0, events, plan};

constexpr mortise_component kPrefixGroup = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_SCHEDULER,
    0,
    MORTISE_CAP_EXACT,
    "prefix_group",
    "requests that share a prefix run together: it is computed once and stays until all have had it",
    scheduling::kLimitsSchema,
    nullptr,
    &kTable,
    supports,
    create,
    destroy,
    nullptr,
    nullptr,
    get_ext,
};

}  // namespace
}  // namespace mortise::prefix_group

MORTISE_PLUGIN("mortise.prefix_group", "Mortise", "0.1.0", "Apache-2.0", &mortise::prefix_group::kPrefixGroup)
