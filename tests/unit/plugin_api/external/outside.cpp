// A scheduler that schedules nothing: enough to be taken by the loader.
#include "mortise/plugin.hpp"
#include "mortise/scheduler.hpp"

namespace {

struct Outside {
  Outside(const mortise_host*, const mortise::Options& options) : depth(options.get<int>("depth")) {}
  void plan(const mortise_schedule_view&, mortise_schedule_plan&) {}

  int depth;
};

constexpr mortise_component kOutside = mortise::SchedulerComponent<Outside>::component(
    "outside", "a scheduler from outside of the repository",
    R"({"type": "object", "properties": {"depth": {"title": "of the queue", "type": "integer", "default": 4}}})",
    MORTISE_CAP_PREFIX_GROUPS);

}  // namespace

MORTISE_PLUGIN("org.example.outside", "Somebody", "0.3.0", "MIT", &kOutside)
