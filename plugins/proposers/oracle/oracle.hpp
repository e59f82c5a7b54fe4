// plugins/proposers/oracle/oracle.hpp: drafts from recorded texts, for measurements. A chosen share of the drafts is
// right. Optionally a draft model runs too, for its cost. Not thread-safe: the host makes one call at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "proposers/common/draft_runner.hpp"
#include "proposers/oracle/recorded_texts.hpp"

namespace mortise::oracle {

// Invariant: a sequence's text, if set, begins with the tokens that were observed. Not thread-safe: the host makes one
// call at a time.
class Oracle {
 public:
  Oracle(const mortise_host* host, const mortise_create_args& args, const Options& options);

  void bind(const mortise_proposer_bind_args& args);
  void observe(const mortise_observation& seen);
  void propose(const mortise_proposal_args& args);

  uint64_t num_sequences() const { return sequences_.size(); }

 private:
  struct Sequence {
    std::vector<int32_t> tokens;
    std::optional<std::size_t> text;  // a text that begins with them
  };
  // A sequence that gets drafts in the current proposal.
  struct Growing {
    int32_t row;  // in the proposal's arrays
    uint64_t seq_id;
    std::size_t text;
    int32_t most;  // drafts
  };

  bool goes_on(const Sequence& sequence, std::size_t known) const;
  int32_t draft(std::size_t text, std::size_t position) const;
  void begin(const mortise_proposal_args& args);
  void run_model(const mortise_proposal_args& args);
  void tell_model(const mortise_proposal_args& args, int32_t depth);

  const RecordedTexts texts_;
  const double rate_;
  const uint64_t seed_;
  const int32_t max_tokens_;
  std::optional<proposers::DraftRunner> model_;  // runs for its cost; its draws are discarded
  int32_t vocab_size_ = 0;
  std::unordered_map<uint64_t, Sequence> sequences_;

  // Used by the current proposal only; members, so that their memory is reused.
  std::vector<Growing> growing_;
  std::vector<uint64_t> ids_;
  std::vector<int32_t> begins_, offsets_, tokens_;
};

}  // namespace mortise::oracle
