// runtime/engine/drafter.hpp: calls one proposer for the engine and checks its answers. A call that fails or breaks a
// bound costs drafts and nothing else; it is counted, and logged with the proposer's name. After INTERNAL the proposer
// is never called again. Engine's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/parts.hpp"
#include "engine/sequence.hpp"
#include "loader/repeated_messages.hpp"

namespace mortise {

// The tokens that a step committed for a sequence. `num_accepted` of them were drafts.
struct StepOutcome {
  Sequence* sequence;
  std::int32_t num_committed;
  std::int32_t num_accepted;
  std::int32_t hidden_row;  // row of the batch that the last token was drawn from
};

// One proposer and the engine's record of what it has been sent. Invariant: the proposer has received the first
// num_told tokens of each sequence in known_; after a failed observe this number is 0. Engine's thread only.
class Drafter {
 public:
  static constexpr std::uint64_t kMaxFailures = 10;

  // `index`: the proposer's position in the pipeline's list. `messages` outlives this.
  Drafter(ActiveProposer proposer, const EngineLimits& limits, std::size_t index, std::int32_t vocab_size,
          RepeatedMessages& messages);

  const ActiveProposer& proposer() const { return proposer_; }

  // Returns false once the proposer has failed for good. It is not called again.
  bool usable() const { return !proposer().health->failed(); }

  struct Ask {
    Sequence* sequence;
    std::int32_t max_drafts;  // at least 1
  };
  // Asks the proposer for drafts and gives the valid ones to their sequences. A sequence may get none. The proposer is
  // not asked for sequences whose tokens it has not been told: those that ran before it came (a swap), and those of an
  // observe that failed.
  void propose(const mortise_step& step, std::span<const Ask> open);
  // Tells the proposer the new tokens of the sequences that it may draft for, and which sequences have ended. `hidden`:
  // the hidden rows of the step's batch, passed on to a proposer that wants them; null when there was no step.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  std::uint64_t num_failures() const { return num_failures_; }
  // The first failure.
  struct Failure {
    std::string why;
    std::optional<std::uint64_t> seq_id;  // the sequence with invalid drafts; nullopt: the call failed
  };
  const std::optional<Failure>& first_failure() const { return first_failure_; }
  // Returns why the proposer should be replaced: it has failed for good, or has failed kMaxFailures times. nullopt: it
  // may go on.
  std::optional<std::string> why_replace() const;
  // Returns the number of sequences that the proposer keeps state for; 0 if it does not say.
  std::uint64_t num_sequences() const;

 private:
  struct Telling;
  struct Known {
    std::int32_t num_told = 0;  // tokens
  };

  bool has_told(const Sequence& sequence) const;  // whether the proposer was told all tokens of the sequence
  void failed(const char* call, const CallResult& result);
  void broke_bound(const Sequence& sequence, const std::string& why);
  bool take_tree(const Ask& ask, std::span<const std::int32_t> tokens, std::span<const std::int32_t> parents);
  bool gives_distributions() const;
  bool take_distributions(Sequence& sequence, std::span<const float> rows);
  void take_ended(std::span<const std::uint64_t> ended);

  const ActiveProposer proposer_;
  const EngineLimits limits_;
  const std::size_t index_;
  const std::int32_t vocab_size_;
  RepeatedMessages& messages_;
  std::unordered_map<std::uint64_t, Known> known_;  // by sequence
  std::vector<std::uint64_t> ended_;                // dropped from known_, not reported to the proposer yet
  std::uint64_t num_failures_ = 0;
  std::optional<Failure> first_failure_;
  std::string last_failure_;
};

}  // namespace mortise
