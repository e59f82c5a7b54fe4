// plugins/schedulers/prefix_group/plugin.cpp: the component.
#include "mortise/plugin.hpp"
#include "mortise/scheduler.hpp"
#include "schedulers/common/options.hpp"
#include "schedulers/prefix_group/scheduler.hpp"

namespace mortise::prefix_group {
namespace {

constexpr mortise_component kPrefixGroup = SchedulerComponent<Scheduler>::component(
    "prefix_group",
    "requests that share a prefix run together: it is computed once and stays cached until all have used it",
    scheduling::kLimitsSchema, MORTISE_CAP_EXACT | MORTISE_CAP_PREFIX_GROUPS);

}  // namespace
}  // namespace mortise::prefix_group

MORTISE_PLUGIN("mortise.prefix_group", "Mortise", "0.1.0", "Apache-2.0", &mortise::prefix_group::kPrefixGroup)
