// mortise/scheduler.hpp: builds the component of a scheduler from a C++20 class. Not part of the ABI: compiled into
// the plugin, like plugin.hpp. C++20. Since 0.4.
//   constexpr mortise_component kMine =
//       mortise::SchedulerComponent<Mine>::component("mine", "plans ...", kOptionsSchema);
//   MORTISE_PLUGIN("example.mine", "Example", "1.0.0", "Apache-2.0", &kMine)
// The class Mine needs
//   Mine(const mortise_host*, const mortise::Options&)
//   void plan(const mortise_schedule_view&, mortise_schedule_plan&)
// and may have
//   void events(const mortise_schedule_events&), if its plans depend on what happened before
//   num_sequences() const: how many sequences it keeps state for (ext/sequences.h)
// scheduler.h says on which thread each is called. guard() turns an exception into the status and message of the call.
#pragma once

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/scheduler.h"

namespace mortise {

// The C functions and the table of one scheduler class. An instance pointer is always a Scheduler that `create` made.
// Has no state: every thread tag of scheduler.h and plugin.h holds as it is.
template <typename Scheduler>
class SchedulerComponent {
 public:
  // The texts must be static. `capabilities` is a mask of MORTISE_CAP_*.
  static constexpr mortise_component component(const char* name, const char* summary, const char* options_schema,
                                               uint64_t capabilities = MORTISE_CAP_EXACT) {
    mortise_component component{};
    component.struct_size = sizeof component;
    component.kind = MORTISE_KIND_SCHEDULER;
    component.capabilities = capabilities;
    component.name = name;
    component.summary = summary;
    component.options_schema = options_schema;
    component.table = &kTable;
    component.supports = [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; };
    component.create = create;
    component.destroy = [](void* instance) { delete static_cast<Scheduler*>(instance); };
    if constexpr (kCounts) component.get_ext = get_ext;
    return component;
  }

 private:
  static constexpr bool kCounts = requires(const Scheduler& s) { s.num_sequences(); };

  static Scheduler& self(mortise_scheduler* instance) { return *reinterpret_cast<Scheduler*>(instance); }

  static mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                               mortise_error* error) {
    return guard(error, "create", [&] { *instance = new Scheduler(host, Options(known(args))); });
  }

  static mortise_status events(mortise_scheduler* scheduler, const mortise_schedule_events* events,
                               mortise_error* error) {
    return guard(error, "events", [&] {
      if constexpr (requires { self(scheduler).events(known(events)); }) self(scheduler).events(known(events));
    });
  }
  static mortise_status plan(mortise_scheduler* scheduler, const mortise_schedule_view* view,
                             mortise_schedule_plan* out, mortise_error* error) {
    return guard(error, "plan", [&] { self(scheduler).plan(known(view), *out); });
  }

  static const void* get_ext(void*, const char* id) {
    static constexpr mortise_sequences_table kSequences = {
        sizeof(mortise_sequences_table), 0,
        [](void* instance) -> uint64_t { return static_cast<const Scheduler*>(instance)->num_sequences(); }};
    return std::string_view(id) == MORTISE_EXT_SEQUENCES ? &kSequences : nullptr;
  }

  static constexpr mortise_scheduler_table kTable = {sizeof(mortise_scheduler_table), 0, events, plan};
};

}  // namespace mortise
