// runtime/speculation/acceptance.hpp: how likely the drafts of a sequence are to stand.
#pragma once

#include <cstdint>

namespace mortise {

// What is known of one sequence's drafts. Old outcomes fade, so that it follows a text that changes. The model behind
// it: each draft stands with one probability, given that those before it stood.
class Acceptance {
 public:
  // A proposer that was asked for `num_asked` drafts made `num_drafts`, of which the first `num_accepted` stood.
  void add(std::int32_t num_asked, std::int32_t num_drafts, std::int32_t num_accepted);

  // Of a draft whose predecessors stood. `prior` stands in for what is not known of the sequence itself.
  double rate(double prior) const;
  // Of the drafts that are asked for, those that come: a proposer may have none.
  double yield() const;

 private:
  double accepted_ = 0, rejected_ = 0;  // faded counts of draft tokens that were decided on
  double asked_ = 0, made_ = 0;
};

// The rate of all sequences of a kind together: what a new one begins with.
class SharedAcceptance {
 public:
  void add(std::int32_t num_drafts, std::int32_t num_accepted);
  double rate() const { return rate_; }

 private:
  double rate_ = 0.7;  // published draft models lie around it; a few dozen drafts make it the pipeline's own
};

}  // namespace mortise
