// runtime/engine/drafting.hpp: all drafts of a step: how many each sequence may have, which proposer supplies them, and
// how many were accepted. A request's prediction comes before any proposer, and works without one. Engine's thread
// only.
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

// Returns which of a pipeline's `proposers` a request's choice allows, or nullopt if it names a proposer that is not
// among them. A request may name a proposer that has failed; it then runs without drafts, because proposers decide
// speed alone.
std::optional<Drafters> drafters_of(const SpeculationChoice& choice, std::span<const std::string> proposers);
// Throws an Error that lists the names when the choice names no proposer of the pipeline, or a wrong number of drafts.
void check_speculation(const SpeculationChoice& choice, std::span<const std::string> proposers);

// All proposers of a pipeline, and the predictions of requests. Invariant: each sequence's drafts come from one source
// only, its prediction or a single proposer. Engine's thread only.
class Drafting {
 public:
  // `proposers` in the order in which they are asked. `clock`: EngineHooks::clock. `messages` outlives this.
  Drafting(const std::vector<ActiveProposer>& proposers, const EngineLimits& limits, std::int32_t vocab_size,
           RepeatedMessages& messages, std::function<double()> clock);

  // Sets which proposers may draft for a sequence, when it arrives and again after a swap of proposers. If its request
  // names a proposer that a swap has removed, the sequence gets no drafts: proposers decide speed alone.
  void welcome(Sequence& sequence) const;
  // Returns the most draft tokens of proposers that a sequence can use in its next decode step. They never go beyond
  // its max_tokens or the model's length.
  std::int32_t lookahead(const Sequence& sequence) const;
  // Returns the number of drafts that each candidate may use, chosen before the plan. A sequence with drafts from its
  // prediction gets as many as the prediction has. Otherwise adaptive lengths decide; with fixed lengths a sequence
  // gets all that it can use.
  std::vector<std::int32_t> lookaheads(std::span<Sequence* const> runnable);
  // Fills `drafts` of the scheduled sequences that decode in this step. A prediction comes first. For each other
  // sequence, the first allowed proposer that returns drafts supplies all of them.
  void propose(const mortise_step& step, std::span<ScheduledSequence> scheduled);
  // Tells every proposer what a step committed and which sequences have ended. Calling this twice for one ended
  // sequence reports it to the proposers once.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  // Counts a sequence's drafts of this step, once its tokens are committed. REQUIRES: the drafts are not cleared yet.
  void verified(Sequence& sequence, std::int32_t num_committed, std::int32_t num_accepted);
  // Called when a sequence has ended. Its length helps to estimate the length of others, unless it was only scored.
  void ended(const Sequence& sequence) {
    if (sequence.max_tokens > 0) lengths_.ended(sequence.num_generated());
  }
  // Called around a step, to time it. `is_typical`: steps of the same shape will take as long.
  void begin_step();
  void end_step(std::span<const ScheduledSequence> scheduled, std::int32_t num_rows, bool is_typical);

  // Returns the proposers in the order in which they are asked for drafts.
  std::vector<ActiveProposer> proposers() const;
  const SpeculationStats& stats() const { return stats_; }
  std::uint64_t num_failures() const;
  // The first failure of the first proposer that has failed, with the proposer's name; nullopt: none has failed.
  struct Failure {
    std::string proposer;
    Drafter::Failure failure;
  };
  std::optional<Failure> first_failure() const;
  std::optional<std::string> why_replace() const;  // the first Drafter::why_replace of any proposer
  std::uint64_t num_sequences() const;  // that proposers keep state for; a proposer that does not say counts 0

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
  std::int32_t num_drafting_ = 0, max_drafts_ = 0, num_verified_ = 0;
  bool any_predicted_ = false;
  double step_began_s_ = 0, draft_s_ = 0;
};

}  // namespace mortise
