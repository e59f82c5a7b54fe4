// runtime/engine/drafting.hpp: the proposers' place in a step: how many drafts a sequence may have, and whose they are.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "engine/drafter.hpp"
#include "engine/parts.hpp"
#include "engine/step_rows.hpp"

namespace mortise {

class Drafting {
 public:
  Drafting(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size);

  // What a request's choice means here. Throws an Error that lists the names when it names no proposer of the pipeline.
  // [any thread]
  Drafters drafters_of(const SpeculationChoice& choice) const;
  // Draft tokens that a sequence may use in its next decode step: never beyond its max_tokens or the model's length.
  std::int32_t allowance(const Sequence& sequence) const;
  // Fills `drafts` of the scheduled sequences that decode in this step: each sequence's are of the first proposer that
  // has any for it.
  void propose(const mortise_step& step, std::span<ScheduledSequence> scheduled);
  // Tells every proposer what a step committed, and who has ended. Told twice of an end, they hear of it once.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  std::uint64_t num_failures() const;
  std::uint64_t num_sequences() const;  // that proposers keep something of, as far as they say

 private:
  const Parts& parts_;
  const EngineLimits& limits_;
  std::deque<Drafter> drafters_;  // of parts_.proposers
};

}  // namespace mortise
