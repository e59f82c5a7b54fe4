// runtime/engine/verified_swap.hpp: a swap with verify_steps. The candidate's parts run the same steps beside the
// serving parts; nothing that they compute or decide is used. The swap is accepted when verify_steps steps were equal.
// The first difference refuses it:
//   attention  its outputs differ in a bit, in any row and layer
//   model      hidden rows that need logits, or their logits, differ in a bit
//   scheduler  a plan breaks a bound, or starves a sequence
//   proposer   its drafts break a bound
// A failed call of any of them refuses the swap too. Engine's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/candidate_drafting.hpp"
#include "engine/planner.hpp"
#include "engine/setup.hpp"
#include "engine/swap.hpp"
#include "execution/side_run.hpp"

namespace mortise {

// Throws an Error with kConflict that names the sizes that differ, because parts are compared at the serving sizes.
// Sizes that only proposers decide may differ.
void check_same_sizes(const EngineLimits& serving, const EngineLimits& candidate);

// A verified swap, from its start to its acceptance or refusal. Invariant: the candidate changes no token and no delta
// of the serving parts. Engine's thread only.
class VerifiedSwap {
 public:
  using Clock = std::chrono::steady_clock;

  // `candidate`: made by SwapOrder::make beside the parts of `serving`. Throws an Error when its sizes differ or when
  // it has no part to compare. `context` outlives this.
  VerifiedSwap(std::shared_ptr<SwapOrder> order, Replacement candidate, const Setup& serving,
               const SetupContext& context, std::uint64_t generation);

  // Returns whether the candidate's attention has its own KV memory, so that live sequences must be computed again into
  // both.
  bool has_own_kv() const { return side_run_ != nullptr; }

  // These pass on to the candidate what the engine tells the objects of its Setup.
  void added(const std::shared_ptr<const Sequence>& sequence);
  void ended(std::uint64_t seq_id);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  // Run the phases of a step, in this order. `serving_s`: seconds that the serving plan took.
  void plan(std::uint64_t step_id, const std::vector<Sequence*>& runnable, const std::vector<std::int32_t>& lookahead,
            const KvCache& cache, double serving_s);
  void propose(const mortise_step& step, std::span<const ScheduledSequence> scheduled);
  SideRun* side_run() const { return side_run_.get(); }
  // Called after the step: counts it as equal, or refuses the swap. `live` has all sequences of the step.
  void end_step(const std::deque<std::shared_ptr<Sequence>>& live);

  // Refuses the swap for a reason other than a difference.
  void refuse(ErrorCode code, const std::string& why);
  // Returns whether the swap is accepted or refused; no further step is compared then.
  bool is_over() const { return refusal_ != nullptr || num_equal_ >= order_->verify_steps; }
  std::exception_ptr refusal() const { return refusal_; }
  Clock::time_point deadline() const { return last_compared_ + patience_; }
  std::string progress() const;  // "12 of 20 steps were compared and equal"

  // The result of an accepted swap: the candidate's parts, and its scheduler and proposers with the state that they
  // have learnt.
  struct Verified {
    Replacement candidate;
    std::unique_ptr<Planner> planner;    // null: the scheduler does not change
    std::unique_ptr<Drafting> drafting;  // null: the proposers do not change, or there are none
  };
  Verified take();
  SwapFigures figures(const Drafting& serving) const;

  const std::shared_ptr<SwapOrder>& order() const { return order_; }
  std::size_t num_recomputed = 0;  // sequences that lost their KV for the comparison

 private:
  void differs(SwapDifference difference, std::optional<std::uint64_t> seq_id);

  const std::shared_ptr<SwapOrder> order_;
  Replacement candidate_;
  const std::chrono::milliseconds patience_;
  const VerifiedFigures::Drafts serving_drafts_before_;
  std::unique_ptr<SideRun> side_run_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<CandidateDrafting> drafting_;
  VerifiedFigures::Plans plans_;
  std::int32_t num_equal_ = 0;
  std::uint64_t num_rows_seen_ = 0;  // of side_run_
  Clock::time_point last_compared_ = Clock::now();
  // Of the running step.
  std::uint64_t step_id_ = 0;
  bool has_planned_ = false;
  std::optional<SwapDifference> difference_;
  std::optional<std::uint64_t> seq_id_;  // the sequence of difference_
  std::exception_ptr refusal_;
};

}  // namespace mortise
