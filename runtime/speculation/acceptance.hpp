// runtime/speculation/acceptance.hpp: estimates how likely the drafts of a sequence are to be accepted. Engine's thread
// only.
#pragma once

#include <array>
#include <cstdint>

namespace mortise {

// Counts of verified drafts by their position in the draft, because proposers differ: a repeated text is accepted to
// the end or fails at once, while a small model errs anywhere. Drafts after a rejected draft are not counted.
// Invariant: at each position accepted <= decided. Engine's thread only.
struct OutcomeCounts {
  static constexpr std::size_t kPositions = 8;  // the last position counts all later ones too
  std::array<double, kPositions> stood{}, decided{};
  double asked = 0, made = 0;

  // A proposer was asked for `max_drafts` drafts and made `num_drafts`, of which the first `num_accepted` were
  // accepted.
  void add(std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted);
  // Adds `later` counts, after reducing the older ones to `keep` of their weight, because texts change. Positions
  // without later counts stay as they are.
  void follow(const OutcomeCounts& later, double keep);
};

class Acceptance;

// The acceptance of all sequences of a kind. It is the prior for each of them, with a weight that is learnt too.
// Engine's thread only. Invariant: rates_ and the weight change only in end_step().
class SharedAcceptance {
 public:
  SharedAcceptance();

  void add(const Acceptance& sequence, std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted);
  void end_step();
  double rate(std::int32_t position) const;
  double yield() const;
  // Returns the weight of this prior in one sequence's estimate, in draft tokens: the entry of kWeights that would have
  // predicted the latest outcomes best.
  double weight() const { return kWeights[best_]; }

 private:
  static constexpr std::array<double, 4> kWeights = {2, 8, 32, 128};

  OutcomeCounts counts_, step_;
  std::array<double, OutcomeCounts::kPositions> rates_;  // of counts_
  std::array<double, kWeights.size()> errors_{};         // squared, of the rates predicted
  std::size_t best_ = 1;
};

// The acceptance of one sequence. Engine's thread only. Invariant: counts_ has only outcomes of this sequence.
class Acceptance {
 public:
  void add(std::int32_t max_drafts, std::int32_t num_drafts, std::int32_t num_accepted);

  // Returns the probability that a draft at `position` (from 0) is accepted, if all drafts before it are.
  double rate(std::int32_t position, const SharedAcceptance& shared) const {
    return rate(position, shared.rate(position), shared.weight());
  }
  double rate(std::int32_t position, double prior, double weight) const;
  // Returns the fraction of the requested drafts that the proposer makes: it may have none.
  double yield(const SharedAcceptance& shared) const;

 private:
  OutcomeCounts counts_;
};

}  // namespace mortise
