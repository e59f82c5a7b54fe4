// runtime/engine/shadow_drafting.hpp: a candidate's proposers beside the serving ones. They are told all that the
// serving ones are told and asked for drafts in each step. Nobody runs these drafts: they are checked, and held against
// the tokens that come. The sequences stay as they are. Engine thread only.
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

class ShadowDrafting {
 public:
  explicit ShadowDrafting(std::unique_ptr<Drafting> candidate) : candidate_(std::move(candidate)) {}

  // Asks for as many drafts as each sequence could use, whatever the plan grants.
  void propose(const mortise_step& step, std::span<const ScheduledSequence> scheduled);
  // As Drafting::observe, behind the commit of a step.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  // Sequences that the last propose() asked drafts for.
  std::int32_t num_asked() const { return num_asked_; }
  std::optional<Drafting::Failure> first_failure() const { return candidate_->first_failure(); }
  VerifiedFigures::Drafts figures() const;
  // The proposers with all that they were told. Nothing is called behind it.
  std::unique_ptr<Drafting> take() { return std::move(candidate_); }

 private:
  struct Pending {
    std::size_t first;  // position of the first one
    std::vector<std::int32_t> drafts;
  };
  void judge(const Sequence& sequence);

  std::unique_ptr<Drafting> candidate_;
  std::unordered_map<std::uint64_t, std::deque<Pending>> pending_;  // by sequence; their tokens are yet to come
  std::int32_t num_asked_ = 0;
  VerifiedFigures::Drafts figures_;
};

// What the proposers of `drafting` have drafted until now, and what came of it.
VerifiedFigures::Drafts drafts_of(const Drafting& drafting);

}  // namespace mortise
