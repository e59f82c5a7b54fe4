// runtime/speculation/adaptive_lengths.hpp: how many drafts each sequence is asked for: those that make the most tokens
// a second of what is known of their acceptance and of the machine's times. It decides when tokens come, never which.
//
//   Choice   for lengths k: sum of 1 + yield (r1 + r1 r2 + ... + r1..rk) over the sequences, where r is the acceptance
//            by position, divided by the time of a step with as many rows and of drafting so many; the best k of each.
//   Start    no step is spent on measurements alone: what is known of other shapes tells of a new one, and what is not
//            known at all is taken to be so that trying costs little (step_costs).
//   Probes   what is not used is not measured, and would never be used again. So up to kProbeShare of the time goes to
//            steps that are not the best known: a draft for sequences at length 0 (one that stands is followed by
//            another), a step without drafts, and longer drafts where they would cost little. That is the probe rate:
//            at length 0 a probe that makes a step p times as long comes every (p - 1) / kProbeShare steps.
//   Pace     choosing takes time too: where steps are short and sequences many, lengths stand for several steps.
//
// Engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "speculation/acceptance.hpp"
#include "speculation/step_costs.hpp"

namespace mortise {

// What is kept of one sequence.
struct DraftState {
  std::uint32_t kind = 0;  // sequences of a kind share what a new one begins with: whom they may be drafted by
  Acceptance acceptance;
  std::int32_t length = 0;      // chosen for this step
  std::int32_t best = -1;       // as far as is known; probes differ from it. -1: not chosen yet
  std::int32_t num_unseen = 0;  // tokens since it was asked the last time
  bool probe_stood = false;     // the last draft at length 0 stood: another one follows
};

class AdaptiveLengths {
 public:
  static constexpr double kProbeShare = 0.005;

  struct Candidate {
    DraftState* state = nullptr;
    std::int32_t limit = 0;  // drafts that it can use
    std::int32_t num_generated = 0;
    std::int32_t most_left = 0;  // tokens that it may yet get
  };
  // Sets the length of each sequence that decodes in the next step.
  void choose(std::span<const Candidate> candidates);

  // What became of a sequence's drafts: asked for `num_asked`.
  void verified(DraftState& state, std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted);

  // A sequence with so many generated tokens has come to its end.
  void ended(std::int32_t num_generated);

  // A step in which all sequences decoded.
  struct StepTimes {
    std::int32_t num_seqs = 0, num_rows = 0;
    std::int32_t num_asked = 0, most_asked = 0;  // sequences that drafts were asked for, and the most for one
    double draft_s = 0, rest_s = 0;
  };
  void measured(const StepTimes& times);

 private:
  // Sequences that may be drafted by the same proposers. What drafting costs is theirs too: one proposer looks a text
  // up, another runs a model.
  struct Kind {
    SharedAcceptance acceptance;
    DraftCosts costs;
    std::int32_t typical = 0;  // length of the last choice: what newcomers begin with until the next one
    // Of this step: of as many sequences as decode, and drafts for one of them and for all.
    CostCurve one{{}, 0}, all{{}, 0};
    double catch_up_s = 0;  // for each token that a sequence got since it was asked the last time
    std::int32_t num_candidates = 0;
    std::int32_t num_asked = 0;   // of the choice that is being weighed, at last of the one that was made
    std::int32_t num_unseen = 0;  // tokens that are new to the proposer, of the sequences that it is asked for
  };
  enum class Probe { kNone, kWithout, kLonger };
  struct Choice {
    double tokens = 0, seconds = 0;
    std::int32_t most = 0;  // drafts of one sequence
    std::size_t num_items = 0;
    double rate() const { return seconds > 0 ? tokens / seconds : 0; }
  };
  struct Item {
    double stands;      // how likely, if there is one
    double rows;        // that it is expected to cost: how likely there is one
    double catch_up_s;  // its share of a step
    Kind* kind;
    std::int32_t candidate, depth;
  };

  double tokens_left(const Candidate& candidate) const;  // as far as others tell
  Kind& kind_of(const DraftState& state) { return kinds_[state.kind]; }
  bool may_wait(std::span<const Candidate> candidates);
  void begin_choice(std::span<const Candidate> candidates);
  void end_choice(std::span<const Candidate> candidates);
  void ask_nobody();
  void collect_items(std::span<const Candidate> candidates);
  Choice best_choice(std::int32_t most);
  double seconds_of(double num_rows, std::int32_t most) const;  // of the kinds' num_asked
  Choice expected(std::span<const Candidate> candidates);       // of the lengths as they are
  void find_best(std::span<const Candidate> candidates);
  void probe(std::span<const Candidate> candidates, const Choice& best);
  bool probe_zeros(std::span<const Candidate> candidates, const Choice& best);
  bool probe_all(std::span<const Candidate> candidates, const Choice& best, Probe probe);

  TimeTable step_costs_{24};  // over (sequences, rows), drafting left out, of steps in which all sequences decode
  std::map<std::uint32_t, Kind> kinds_;
  CostCurve steps_{{}, 0};  // of as many sequences as decode in this step
  std::int32_t num_candidates_ = 0;
  std::vector<Item> items_;
  std::int32_t steps_to_choice_ = 0;
  double budget_s_ = 0;  // for probes
  double last_step_s_ = 0;
  double usual_length_ = 0, num_ended_ = 0;  // generated tokens of the sequences that ended, the last ones above all
  std::size_t next_probed_ = 0;              // of the candidates, where all of them are too dear
  Probe probe_ = Probe::kNone;               // of the whole batch, in this step
  std::int32_t steps_since_without_ = 0, steps_since_longer_ = 0;
};

}  // namespace mortise
