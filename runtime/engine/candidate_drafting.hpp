// runtime/engine/candidate_drafting.hpp: runs a candidate's proposers beside the serving proposers. The candidate
// observes the same tokens and proposes in each step. Its drafts are checked and compared with the tokens that follow,
// but never run. The sequences do not change. Engine's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/drafting.hpp"
#include "engine/swap.hpp"

namespace mortise {

// The candidate's proposers and the drafts that are not judged yet. Invariant: outside its calls every sequence has the
// draft state of the serving proposers. Engine's thread only.
class CandidateDrafting {
 public:
  explicit CandidateDrafting(std::unique_ptr<Drafting> candidate) : candidate_(std::move(candidate)) {}

  // Asks for as many drafts as each sequence could use, whatever the plan grants.
  void propose(const mortise_step& step, std::span<const ScheduledSequence> scheduled);
  // Called after the commit of a step, like Drafting::observe.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  // Returns the number of sequences for which the last propose() asked drafts.
  std::int32_t num_drafting() const { return num_drafting_; }
  std::optional<Drafting::Failure> first_failure() const { return candidate_->first_failure(); }
  VerifiedFigures::Drafts figures() const;
  // Gives away the proposers, with all the state that they have learnt. REQUIRES: this is the last call.
  std::unique_ptr<Drafting> take() { return std::move(candidate_); }

 private:
  struct Pending {
    std::size_t first;  // position of the first draft
    std::vector<std::int32_t> drafts;
  };
  void judge(const Sequence& sequence);

  std::unique_ptr<Drafting> candidate_;
  // By sequence: drafts that still wait for tokens to be compared with.
  std::unordered_map<std::uint64_t, std::deque<Pending>> pending_;
  std::int32_t num_drafting_ = 0;
  VerifiedFigures::Drafts figures_;
};

// Returns the sums over all proposers of `drafting` so far.
VerifiedFigures::Drafts drafts_of(const Drafting& drafting);

}  // namespace mortise
