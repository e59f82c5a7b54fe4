// plugins/proposers/draft_model/draft_model.hpp: drafts with a smaller model that has the target's vocabulary. The host
// runs the model and keeps its tokens and KV. This class decides which sequences draft how far. Not thread-safe: the
// host makes one call at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "proposers/common/draft_runner.hpp"

namespace mortise::draft_model {

// One instance of the proposer. Invariant: forks_ are the forks that are open in the runner. Not thread-safe: the host
// makes one call at a time.
class DraftModel {
 public:
  DraftModel(const mortise_host* host, const mortise_create_args& args, const Options& options);

  void bind(const mortise_proposer_bind_args& args);
  void observe(const mortise_observation& seen) { runner_.observe(seen); }
  void propose(const mortise_proposal_args& args);

  std::uint64_t num_sequences() const { return runner_.num_sequences(); }

 private:
  // A path of drafts that grows, of a sequence or of one of its forks.
  struct Branch {
    std::int32_t row;        // in the proposal's arrays
    std::uint64_t seq_id;    // in the runner
    std::int32_t last = -1;  // index of its last draft in the row, -1 before the first
    bool ended = false;
  };

  void run(const mortise_proposal_args& args, std::int32_t num_choices);
  void take(const mortise_proposal_args& args, std::int32_t num_choices);
  std::int32_t add_draft(const mortise_proposal_args& args, const Branch& branch, std::int32_t token) const;
  void fork(const mortise_proposal_args& args, std::int32_t num_choices);
  void end_forks();

  void take_distribution(const mortise_proposal_args& args, const Branch& branch, std::size_t index) const;

  proposers::DraftRunner runner_;
  const std::int32_t branches_;
  std::size_t vocab_size_ = 0, target_vocab_size_ = 0;

  // Used by the current proposal only; members, so that their memory is reused.
  std::vector<Branch> growing_;
  std::vector<std::uint64_t> forks_, origins_;
  std::vector<std::int32_t> fork_tokens_;
  std::vector<std::int32_t> sampled_;
  std::vector<float> logits_;  // of the current pass, if distributions are wanted
};

}  // namespace mortise::draft_model
