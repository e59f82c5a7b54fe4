// runtime/engine/planner.hpp: asks the scheduler for a step's plan and checks it. First come, first served replaces a
// plan that breaks a bound, every plan after the scheduler has failed, and every plan while a sequence lives that the
// scheduler has starved. So a foreign scheduler can make the engine slow, never wrong and never stuck. [engine's
// thread]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/parts.hpp"
#include "engine/sequence.hpp"
#include "engine/starvation.hpp"
#include "kv/cached_free_prefixes.hpp"
#include "kv/kv_cache.hpp"
#include "loader/repeated_messages.hpp"

namespace mortise {

struct PlannedSequence {
  Sequence* sequence = nullptr;
  std::int32_t num_new_tokens = 0;
  std::int32_t max_drafts = 0;  // granted; 0 if the run ends before the last known token
};

// Keeps the first `num_tokens` tokens of a sequence in the prefix cache; 0 ends the pin.
struct Pin {
  Sequence* sequence = nullptr;
  std::int32_t num_tokens = 0;
};

struct StepPlan {
  std::vector<PlannedSequence> scheduled;
  std::vector<Sequence*> preempted;
  std::vector<Pin> pins;
  bool drop_pins = false;  // a sequence needs the memory of pinned prefixes to run
};

// Asks the scheduler for plans and checks them. Invariant: a plan that it returns keeps every bound of
// mortise/scheduler.h. Engine's thread only.
class Planner {
 public:
  static constexpr std::uint64_t kMaxBreaches = 10;

  // `messages` outlives this. When a swap puts a scheduler in, the engine tells it of the live sequences by added().
  Planner(ActiveScheduler scheduler, const EngineLimits& limits, RepeatedMessages& messages);

  // These four functions queue events, which the scheduler gets before the next plan.
  void added(const std::shared_ptr<const Sequence>& sequence);
  void ended(std::uint64_t seq_id);
  void prefix_resident(std::uint64_t seq_id, std::int32_t num_tokens);
  void prefix_evicted(std::uint64_t seq_id);
  // `runnable`: sequences that may run, in order of arrival, at least one. `lookahead`, parallel to them: how many
  // draft tokens each may use.
  StepPlan plan(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                const std::vector<std::int32_t>& lookahead, const KvCache& cache);

  // A bound that a plan breaks.
  struct Breach {
    std::string why;
    std::optional<std::uint64_t> seq_id;  // the sequence at fault; nullopt: the plan as a whole
  };
  // For a verified swap: asks the candidate scheduler for a plan of a step that runs by the serving scheduler's plan,
  // and checks it by the same rules; nullopt: it is good. These plans never run, so the first plan that schedules a
  // waiting sequence counts as its admission, and later plans do not. The candidate's pins are not kept, and it is told
  // of none.
  std::optional<Breach> rehearse(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                                 const std::vector<std::int32_t>& lookahead, const KvCache& cache);

  const ActiveScheduler& scheduler() const { return scheduler_; }
  std::uint64_t num_rejected_plans() const { return num_rejected_; }
  std::uint64_t num_starved() const { return num_starved_; }  // starved sequences that the host ran itself
  // Returns why the scheduler should be replaced: it has failed, starved a sequence, or kMaxBreaches of its plans were
  // not usable. nullopt: it may go on.
  std::optional<std::string> why_replace() const;

 private:
  struct View;
  // An event that the scheduler is told before the next plan.
  struct Event {
    std::int32_t kind;
    std::uint64_t seq_id;
    std::int32_t num_tokens;
    std::shared_ptr<const Sequence> added;  // of ADDED; it may have ended by then
  };
  CallResult send_events();
  template <typename Work>
  auto with_view(std::uint64_t step_id, const std::vector<Sequence*>& runnable,
                 const std::vector<std::int32_t>& lookahead, const KvCache& cache, const Work& work);
  // The scheduler's answer: a plan, or the reason why there is none. Neither is set if there was no room for a plan,
  // which is no fault.
  struct Answer {
    std::optional<StepPlan> plan;
    CallResult result;
    std::optional<Breach> breach;
  };
  Answer ask_scheduler(const View& view, const mortise_schedule_view& abi_view);
  std::optional<StepPlan> usable_plan(Answer answer);
  StepPlan first_come_first_served(const View& view, const mortise_schedule_view& abi_view,
                                   std::size_t first = 0) const;
  void remember_breach(const std::string& what);
  std::optional<StarvationWatch::Starved> find_starved(const View& view, const mortise_schedule_view& abi_view,
                                                       const StepPlan& plan, bool is_carried_out);

  const ActiveScheduler scheduler_;
  const EngineLimits limits_;
  RepeatedMessages& messages_;
  StarvationWatch starvation_;
  std::optional<std::uint64_t> starved_;                    // a starved sequence, until it ends
  std::unordered_set<std::uint64_t> rehearsed_admissions_;  // live sequences that a rehearsed plan has admitted
  std::vector<Event> events_;
  CachedFreePrefixes cached_free_;  // of the runnable
  std::uint64_t num_rejected_ = 0, num_starved_ = 0;
  std::string last_breach_;
};

}  // namespace mortise
