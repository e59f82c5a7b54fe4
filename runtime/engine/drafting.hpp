// runtime/engine/drafting.hpp: the proposer's place in a step: what it is told, what it is asked, and what of its
// answer is used. A proposer that fails or breaks a bound costs the step its drafts, nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/parts.hpp"
#include "engine/step_rows.hpp"

namespace mortise {

class Drafting {
 public:
  Drafting(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size);

  // Draft tokens that a sequence may use in its next decode step: never beyond its max_tokens or the model's length.
  std::int32_t allowance(const Sequence& sequence) const;
  // Fills `drafts` of the scheduled sequences that decode in this step.
  void propose(const mortise_step& step, std::span<ScheduledSequence> scheduled);
  // Tells the proposer what a step committed. `committed[i]` tokens, `accepted[i]` of them drafts.
  struct Outcome {
    const Sequence* sequence;
    std::int32_t num_committed;
    std::int32_t num_accepted;
  };
  void observe(std::span<const Outcome> outcomes, std::span<const std::uint64_t> ended);

  std::uint64_t num_failures() const { return num_failures_; }

 private:
  void failed(const char* call, const char* message);

  const Parts& parts_;
  const EngineLimits& limits_;
  const std::int32_t vocab_size_;
  std::vector<std::uint64_t> known_;  // sequences that the proposer has the history of
  std::uint64_t known_generation_ = 0;
  std::uint64_t num_failures_ = 0;
};

}  // namespace mortise
