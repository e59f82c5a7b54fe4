// runtime/engine/planner.hpp: asks the scheduler for a step's plan and checks it. A plan that breaks a bound is
// replaced for that step by first come, first served, and so are all plans after the scheduler has failed, or while a
// sequence lives that it starved: a foreign scheduler can make the engine slow, never wrong and never stuck.
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
#include "kv/kv_cache.hpp"
#include "kv/unheld_prefixes.hpp"
#include "loader/repeated_messages.hpp"

namespace mortise {

struct PlannedSequence {
  Sequence* sequence = nullptr;
  std::int32_t num_new_tokens = 0;
  std::int32_t num_drafts = 0;  // granted, of its lookahead; 0 when the run does not reach the known end
};

// The first `num_tokens` tokens of a sequence are to stay in the prefix cache; 0 lets go.
struct Pin {
  Sequence* sequence = nullptr;
  std::int32_t num_tokens = 0;
};

struct StepPlan {
  std::vector<PlannedSequence> scheduled;
  std::vector<Sequence*> preempted;
  std::vector<Pin> pins;
  bool drop_pins = false;  // a sequence can only run with the memory of pinned prefixes
};

class Planner {
 public:
  static constexpr std::uint64_t kMostBreaches = 10;

  // `messages` outlives this. A scheduler that is put in while sequences live is told of them by added().
  Planner(ActiveScheduler scheduler, const EngineLimits& limits, RepeatedMessages& messages);

  void added(const std::shared_ptr<const Sequence>& sequence);
  void ended(std::uint64_t seq_id);
  void prefix_resident(std::uint64_t seq_id, std::int32_t num_tokens);
  void prefix_evicted(std::uint64_t seq_id);
  // `candidates`: sequences that may run, in order of arrival, at least one. Draft tokens that a sequence may use come
  // from `lookahead` (parallel to them).
  StepPlan plan(std::uint64_t step_id, const std::vector<Sequence*>& candidates,
                const std::vector<std::int32_t>& lookahead, const KvCache& cache);

  // What is wrong with a plan.
  struct Fault {
    std::string why;
    std::optional<std::uint64_t> seq_id;  // the sequence that it is about
  };
  // Asks for the plan of a step that runs after another scheduler's, and checks it by the same rules; nothing: it is
  // good. Since nobody carries the plans out, a younger sequence counts as started before an older one by the first of
  // them alone. A planner that does this is told of no pins, for nobody keeps those that it asks for.
  std::optional<Fault> rehearse(std::uint64_t step_id, const std::vector<Sequence*>& candidates,
                                const std::vector<std::int32_t>& lookahead, const KvCache& cache);

  const ActiveScheduler& scheduler() const { return scheduler_; }
  std::uint64_t num_rejected_plans() const { return num_rejected_; }
  std::uint64_t num_starved() const { return num_starved_; }  // sequences that the host had to run itself
  // Why the scheduler should not serve any more: it has failed, starved a sequence, or kMostBreaches of its plans could
  // not be used. nullopt: it should.
  std::optional<std::string> breach() const;

 private:
  struct View;
  // What the scheduler is told before the next plan.
  struct Event {
    std::int32_t kind;
    std::uint64_t seq_id;
    std::int32_t num_tokens;
    std::shared_ptr<const Sequence> added;  // ADDED: it may have ended by then
  };
  CallResult send_events();
  template <typename Work>
  auto with_view(std::uint64_t step_id, const std::vector<Sequence*>& candidates,
                 const std::vector<std::int32_t>& lookahead, const KvCache& cache, const Work& work);
  // The scheduler's answer: a plan, or why there is none. Neither: it had no room for one, which is no fault.
  struct Answer {
    std::optional<StepPlan> plan;
    CallResult result;
    std::optional<Fault> breach;
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
  std::optional<std::uint64_t> starved_;                // a sequence that the scheduler starved, until it has ended
  std::unordered_set<std::uint64_t> rehearsed_starts_;  // live sequences that a rehearsed plan has started
  std::vector<Event> events_;
  UnheldPrefixes unheld_;  // of the candidates
  std::uint64_t num_rejected_ = 0, num_starved_ = 0;
  std::string last_breach_;
};

}  // namespace mortise
