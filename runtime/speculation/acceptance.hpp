// runtime/speculation/acceptance.hpp: how likely the drafts of a sequence are to stand.
#pragma once

#include <array>
#include <cstdint>

namespace mortise {

// Drafts that were decided on, by position in the draft: a text that repeats another one stands to the end or falls at
// once, a small model errs anywhere. What follows a rejected draft says nothing.
struct OutcomeCounts {
  static constexpr std::size_t kPositions = 8;  // the last one stands for all that follow
  std::array<double, kPositions> stood{}, decided{};
  double asked = 0, made = 0;

  // A proposer that was asked for `num_asked` drafts made `num_drafts`, of which the first `num_accepted` stood.
  void add(std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted);
  // Adds later ones. What they tell nothing of stays as it is, the rest keeps `keep` of its weight: it follows a text
  // that changes.
  void follow(const OutcomeCounts& later, double keep);
};

class Acceptance;

// Of all sequences of a kind: what a new one begins with, and how much that says of each.
class SharedAcceptance {
 public:
  SharedAcceptance();

  void add(const Acceptance& sequence, std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted);
  void end_step();
  double rate(std::int32_t position) const;
  double yield() const;
  // Draft tokens that it counts for in the estimate of one sequence: of kWeights, the one that would have foretold the
  // last outcomes best.
  double weight() const { return kWeights[best_]; }

 private:
  static constexpr std::array<double, 4> kWeights = {2, 8, 32, 128};

  OutcomeCounts counts_, step_;
  std::array<double, OutcomeCounts::kPositions> rates_;  // of counts_
  std::array<double, kWeights.size()> errors_{};         // squared, of the rates foretold
  std::size_t best_ = 1;
};

// Of one sequence.
class Acceptance {
 public:
  void add(std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted);

  // Of a draft at `position` (from 0) whose predecessors stood.
  double rate(std::int32_t position, const SharedAcceptance& shared) const {
    return rate(position, shared.rate(position), shared.weight());
  }
  double rate(std::int32_t position, double prior, double weight) const;
  // Of the drafts that are asked for, those that come: a proposer may have none.
  double yield(const SharedAcceptance& shared) const;

 private:
  OutcomeCounts counts_;
};

}  // namespace mortise
