// runtime/speculation/adaptive_lengths.hpp: chooses how many drafts each sequence is asked for, so that the expected
// tokens per second are highest, by measured acceptance and times. It decides when tokens come, never which tokens.
//
//   Lengths  Finds the lengths k of all sequences that maximise expected tokens / expected time of a step. The tokens
//            are the sum of 1 + yield (r1 + r1 r2 + ... + r1..rk) over the sequences, where r is the acceptance rate
//            by position. The time is that of a step with as many rows, and of drafting as many tokens.
//   Start    No step is spent on measurements alone. Costs of a new shape are estimated from other shapes. Without any
//            measurement the estimate is optimistic, so that the shape gets tried (step_costs).
//   Probes   A length that is never used is never measured, so it would never be used again. Up to kProbeShare of the
//            time therefore goes to steps that are not the best known: one draft for sequences at length 0 (an
//            accepted draft is followed by another), a step without drafts, and longer drafts if they would cost
//            little. At length 0, a probe that makes a step p times as long comes every (p - 1) / kProbeShare steps.
//   Pace     Choosing takes time too. If steps are short and sequences are many, lengths are kept for several steps.
//
// Engine's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "speculation/acceptance.hpp"
#include "speculation/step_costs.hpp"

namespace mortise {

// The state of one sequence. Engine's thread only.
struct DraftState {
  std::uint32_t kind = 0;  // which proposers may draft; sequences of a kind share a prior
  Acceptance acceptance;
  std::int32_t length = 0;      // chosen for this step
  std::int32_t best = -1;       // best known length; probes differ from it. -1: not chosen yet
  std::int32_t num_unseen = 0;  // tokens since a proposer was last asked for its drafts
  bool probe_stood = false;     // the last draft was accepted: at length 0, another probe follows
};

// The choice of lengths for one engine. Invariant: the budget pays for every step that is expected to be worse than the
// best known one. Engine's thread only.
class AdaptiveLengths {
 public:
  static constexpr double kProbeShare = 0.005;

  struct Candidate {
    DraftState* state = nullptr;
    std::int32_t limit = 0;  // the most drafts that it can use
    std::int32_t num_generated = 0;
    std::int32_t most_left = 0;  // the most tokens that it may still generate
  };
  // Sets the length of each sequence that decodes in the next step.
  void choose(std::span<const Candidate> candidates);

  // Records a sequence's drafts of a step: `max_drafts` were asked for, `num_drafts` made, `num_accepted` accepted.
  void verified(DraftState& state, std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted);

  // Called when a sequence has ended after `num_generated` tokens.
  void ended(std::int32_t num_generated);

  // The times of a step in which all sequences decoded.
  struct StepTimes {
    std::int32_t num_seqs = 0, num_rows = 0;
    std::int32_t num_drafting = 0, max_drafts = 0;  // sequences asked for drafts; the most drafts for one
    double draft_s = 0, rest_s = 0;
  };
  void measured(const StepTimes& times);

 private:
  // Sequences that the same proposers may draft for. Each kind has its own drafting costs: one proposer searches a
  // text, another runs a model.
  struct Kind {
    SharedAcceptance acceptance;
    DraftCosts costs;
    std::int32_t typical = 0;  // a length of the last choice; new sequences use it until the next choice
    // Of this step: the cost of drafting for one sequence, and for all sequences of the kind that decode.
    CostCurve one{{}, 0}, all{{}, 0};
    double catch_up_s = 0;  // for each token that was committed since a proposer was last asked
    std::int32_t num_candidates = 0;
    std::int32_t num_drafting = 0;  // in the choice that is weighed, at last in the choice that is made
    std::int32_t num_unseen = 0;    // tokens that the proposer has to catch up with in this step
  };
  enum class Probe { kNone, kWithout, kLonger };
  struct LengthChoice {
    double tokens = 0, seconds = 0;
    std::int32_t most = 0;  // drafts of one sequence
    std::size_t num_items = 0;
    double rate() const { return seconds > 0 ? tokens / seconds : 0; }
  };
  struct Item {
    double chance;      // probability that it is accepted, if it is made
    double rows;        // expected cost in rows: the probability that it is made
    double catch_up_s;  // its share of a step
    Kind* kind;
    std::int32_t candidate, depth;
  };

  double tokens_left(const Candidate& candidate) const;  // estimated from the lengths of others
  Kind& kind_of(const DraftState& state) { return kinds_[state.kind]; }
  bool keeps_last_choice(std::span<const Candidate> candidates);
  void begin_choice(std::span<const Candidate> candidates);
  void end_choice(std::span<const Candidate> candidates);
  void ask_nobody();
  void collect_items(std::span<const Candidate> candidates);
  LengthChoice best_choice(std::int32_t most);
  double seconds_of(double num_rows, std::int32_t most) const;   // of a step that drafts for num_drafting of each kind
  LengthChoice expected(std::span<const Candidate> candidates);  // of the current lengths
  void find_best(std::span<const Candidate> candidates);
  void probe(std::span<const Candidate> candidates, const LengthChoice& best);
  bool probe_zeros(std::span<const Candidate> candidates, const LengthChoice& best);
  bool probe_all(std::span<const Candidate> candidates, const LengthChoice& best, Probe probe);

  TimeTable step_costs_{24};  // over (sequences, rows), without drafting, of steps in which all sequences decode
  std::map<std::uint32_t, Kind> kinds_;
  CostCurve steps_{{}, 0};  // of as many sequences as decode in this step
  std::int32_t num_candidates_ = 0;
  std::vector<Item> items_;
  std::int32_t steps_to_choice_ = 0;
  double budget_s_ = 0;  // for probes
  double last_step_s_ = 0;
  double usual_length_ = 0, num_ended_ = 0;  // mean of generated tokens; the latest ended sequences count most
  std::size_t next_probed_ = 0;              // a candidate, if probing all costs too much
  Probe probe_ = Probe::kNone;               // of the whole batch, in this step
  std::int32_t steps_since_without_ = 0, steps_since_longer_ = 0;
};

}  // namespace mortise
