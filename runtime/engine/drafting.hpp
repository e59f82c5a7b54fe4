// runtime/engine/drafting.hpp: the place of drafts in a step: how many a sequence may have, whose they are, and what
// came of them. A request's prediction drafts before any proposer does, and needs none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/drafter.hpp"
#include "engine/parts.hpp"
#include "engine/step_rows.hpp"
#include "speculation/adaptive_lengths.hpp"
#include "speculation/speculation_stats.hpp"

namespace mortise {

// What a request's choice means to a pipeline with proposers of these names; nullopt: it names none of them. A proposer
// that has failed may be named: which proposer drafts decides speed alone, so the request goes on without.
std::optional<Drafters> drafters_of(const SpeculationChoice& choice, std::span<const std::string> proposers);
// Throws an Error that lists the names when the choice names no proposer of the pipeline, or a wrong number of drafts.
void check_speculation(const SpeculationChoice& choice, std::span<const std::string> proposers);

class Drafting {
 public:
  // `proposers` in the order in which they are asked. `clock`: EngineHooks::clock. `messages` outlives this.
  Drafting(const std::vector<ActiveProposer>& proposers, const EngineLimits& limits, std::int32_t vocab_size,
           RepeatedMessages& messages, std::function<double()> clock);

  // Says which proposers may draft for a sequence that comes, or for one that lived before these proposers did. One
  // whose request names a proposer that is not here any more gets no drafts: they decide speed alone.
  void welcome(Sequence& sequence) const;
  // Draft tokens of proposers that a sequence can use in its next decode step: never beyond its max_tokens or the
  // model's length.
  std::int32_t allowance(const Sequence& sequence) const;
  // Those that each gets, before the plan: of its prediction as many as that has; else with adaptive lengths as many as
  // pay, else all that it can use.
  std::vector<std::int32_t> allowances(std::span<Sequence* const> candidates);
  // Fills `drafts` of the scheduled sequences that decode in this step: each sequence's are of the first proposer that
  // has any for it.
  void propose(const mortise_step& step, std::span<ScheduledSequence> scheduled);
  // Tells every proposer what a step committed, and who has ended. Told twice of an end, they hear of it once.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  // A sequence's drafts of this step, which are still there, have been verified, and its tokens committed.
  void verified(Sequence& sequence, std::int32_t num_committed, std::int32_t num_accepted);
  // A sequence has come to its end. Those that are only scored tell nothing of how long texts get.
  void ended(const Sequence& sequence) {
    if (sequence.max_tokens > 0) lengths_.ended(sequence.num_generated());
  }
  // Around a step, which is timed. `is_typical`: others like it will take as long.
  void begin_step();
  void end_step(std::span<const ScheduledSequence> scheduled, std::int32_t num_rows, bool is_typical);

  // In the order in which they are asked.
  std::vector<ActiveProposer> proposers() const;
  const SpeculationStats& stats() const { return stats_; }
  std::uint64_t num_failures() const;
  // The first failure of a proposer, and its name; nullopt: none has failed.
  struct Failure {
    std::string proposer;
    Drafter::Failure failure;
  };
  std::optional<Failure> first_failure() const;
  std::optional<std::string> breach() const;  // of the first proposer that has one: Drafter::breach
  std::uint64_t num_sequences() const;        // that proposers keep something of, as far as they say

 private:
  std::int32_t room_for_drafts(const Sequence& sequence) const;
  std::span<const std::int32_t> predicted(const Sequence& sequence) const;
  bool draft_predicted(const ScheduledSequence& item, std::size_t& edits_left);
  void ask_proposers(const mortise_step& step, std::vector<Drafter::Ask> open);
  template <typename Work>
  double time_of(const Work& work) const;

  const EngineLimits limits_;
  const std::function<double()> clock_;
  std::deque<Drafter> drafters_;  // of the proposers, in their order
  AdaptiveLengths lengths_;
  SpeculationStats stats_;
  // Of this step.
  std::int32_t num_asked_ = 0, most_asked_ = 0, num_verified_ = 0;
  bool any_predicted_ = false;
  double step_began_s_ = 0, draft_s_ = 0;
};

}  // namespace mortise
