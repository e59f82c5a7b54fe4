// runtime/engine/drafter.hpp: one proposer as the engine uses it: what it is told, what it is asked, and what of its
// answer is used. It may fail or break any bound; that costs drafts, is counted, and logged with its name. After
// INTERNAL it is dropped: neither told nor asked anything again.
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

// What a step committed of a sequence: so many tokens, of them so many drafts.
struct StepOutcome {
  Sequence* sequence;
  std::int32_t num_committed;
  std::int32_t num_accepted;
  std::int32_t hidden_row;  // of the batch: from which the last token was drawn
};

class Drafter {
 public:
  static constexpr std::uint64_t kMostFailures = 10;

  // `index`: of the proposer among the pipeline's. `messages` outlives this.
  Drafter(ActiveProposer proposer, const EngineLimits& limits, std::size_t index, std::int32_t vocab_size,
          RepeatedMessages& messages);

  const ActiveProposer& proposer() const { return proposer_; }

  // Whether it may be asked.
  bool usable() const { return !proposer().health->failed(); }

  struct Ask {
    Sequence* sequence;
    std::int32_t max_drafts;  // at least 1
  };
  // Gives the sequences drafts, those that the proposer has any for.
  void propose(const mortise_step& step, std::span<const Ask> asked);
  // Tells the proposer of those sequences that it may draft for: all that it does not know of them yet. `hidden`: the
  // rows of the step's batch, for a proposer that wants them; null when there was no step.
  void observe(std::span<const StepOutcome> outcomes, std::span<const std::uint64_t> ended,
               const mortise_tensor* hidden);

  std::uint64_t num_failures() const { return num_failures_; }
  // The first of them.
  struct Failure {
    std::string why;
    std::optional<std::uint64_t> seq_id;  // the sequence whose drafts are wrong; nothing: the call failed
  };
  const std::optional<Failure>& first_failure() const { return first_failure_; }
  // Why it should not serve any more: it has failed, or kMostFailures of its calls could not be used. nullopt: it
  // should.
  std::optional<std::string> breach() const;
  // Sequences that the proposer keeps something of; 0 if it does not say.
  std::uint64_t num_sequences() const;

 private:
  struct Telling;
  struct Known {
    std::int32_t num_told = 0;  // tokens
  };

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
  std::vector<std::uint64_t> ended_;                // of known_: the proposer is yet to be told
  std::uint64_t num_failures_ = 0;
  std::optional<Failure> first_failure_;
  std::string last_failure_;
};

}  // namespace mortise
