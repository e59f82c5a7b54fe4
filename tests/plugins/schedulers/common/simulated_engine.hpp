// tests/plugins/schedulers/common/simulated_engine.hpp: the simulated engine of runtime/conformance with a built-in
// scheduler, and with what the built-in schedulers promise beyond the rules of scheduler.h.
#pragma once

#include <memory>

#include "conformance/simulated_engine.hpp"
#include "loader/option_reader.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "schedulers/common/planner.hpp"

namespace mortise::test {

using conformance::SimulatedRequest;
using conformance::SimulationOptions;

// An instance of a scheduler. Every call checks that it succeeds.
class SchedulerInstance {
 public:
  explicit SchedulerInstance(const mortise_component& component) : component_(component) {
    const OptionReader reader({{"max_num_seqs", 1000}, {"max_batched_tokens", 100000}});
    auto args = sized<mortise_create_args>();
    reader.give_to(args);
    require(component.create(nullptr, &args, &instance_, nullptr), "create");
  }
  ~SchedulerInstance() { component_.destroy(instance_); }
  SchedulerInstance(const SchedulerInstance&) = delete;
  SchedulerInstance& operator=(const SchedulerInstance&) = delete;

  conformance::SchedulerCalls calls() const {
    return {[this](const mortise_schedule_events& events) {
              mortise_error error = make_error();
              require(table().events(self(), &events, &error), error.message);
            },
            [this](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
              mortise_error error = make_error();
              require(table().plan(self(), &view, &plan, &error), error.message);
            }};
  }
  uint64_t num_sequences() const {
    const auto* table =
        static_cast<const mortise_sequences_table*>(component_.get_ext(instance_, MORTISE_EXT_SEQUENCES));
    return table->num_sequences(instance_);
  }

 private:
  static void require(mortise_status status, const char* what) {
    if (status != MORTISE_OK) throw conformance::CaseFailed(what);
  }
  mortise_scheduler* self() const { return static_cast<mortise_scheduler*>(instance_); }
  const mortise_scheduler_table& table() const {
    return *static_cast<const mortise_scheduler_table*>(component_.table);
  }

  const mortise_component& component_;
  void* instance_ = nullptr;
};

// A simulated engine with a built-in scheduler. Used by one thread.
class SimulatedEngine : private SchedulerInstance, public conformance::SimulatedEngine {
 public:
  // `first_come`: plans must keep the promises of fcfs.
  SimulatedEngine(const mortise_component& component, const SimulationOptions& options, uint64_t seed,
                  bool first_come = false)
      : SchedulerInstance(component), conformance::SimulatedEngine(calls(), options, seed), first_come_(first_come) {}

  uint64_t num_scheduler_sequences() const { return num_sequences(); }

 private:
  // By the built-in planner, so that its results can be compared with those of a scheduler that uses it, too.
  void replace(const View& view, mortise_schedule_plan& plan) const override {
    std::vector<scheduling::OrderEntry> order;
    for (int32_t i = 0; i < view.abi.num_seqs; ++i) order.push_back({i});
    std::ranges::stable_sort(order, {},
                             [&](const scheduling::OrderEntry& entry) { return view.priorities[entry.index]; });
    scheduling::Planner planner(view.abi, {1000, 100000}, order);
    planner.plan();
    planner.write(plan);
  }

  void check_policy(const View& view, const std::vector<int32_t>& tokens,
                    const std::vector<char>& preempted) const override {
    using conformance::expect;
    for (int32_t a = 0; a < view.abi.num_seqs; ++a) {
      for (int32_t b = 0; b < view.abi.num_seqs; ++b) {
        const bool admits_b = !view.running(b) && tokens[b] > 0;
        expect(!(preempted[a] && admits_b && view.priorities[b] >= view.priorities[a]),
               "admitted a sequence with the blocks of one that matters as much");
        expect(!(admits_b && !view.running(a) && view.priorities[a] < view.priorities[b] && tokens[a] == 0),
               "admitted a sequence before one of better priority");
        if (!first_come_ || !view.before(a, b) || view.states[a] != view.states[b]) continue;
        expect(!(preempted[a] && !preempted[b] && view.running(b)),
               "preempted a sequence before one that comes after it");
        expect(!(admits_b && tokens[a] == 0), "admitted a sequence before one that comes before it");
      }
    }
  }

  const bool first_come_;
};

}  // namespace mortise::test
