// plugins/proposers/common/draft_runner.hpp: a draft model that the host runs for a proposer (mortise/ext/runner.h). A
// call that fails throws a Failure with the host's message. Not thread-safe: the host makes one call to its proposer at
// a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mortise/ext/runner.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace mortise::proposers {

// Invariant: known_ has the sequences whose tokens the runner has; beyond those tokens the runner has drafts only. Not
// thread-safe: the host makes one call at a time.
class DraftRunner {
 public:
  // `path` and `options` are those of mortise_runner_open_args.
  DraftRunner(const mortise_host* host, std::string path, std::string options);
  ~DraftRunner();
  DraftRunner(const DraftRunner&) = delete;
  DraftRunner& operator=(const DraftRunner&) = delete;

  // Called in the proposer's bind. `max_forks` is that of mortise_runner_open_args.
  void open(std::int32_t max_forks = 0);
  const mortise_model_dims& dims() const { return *runners_->dims(runner_); }

  // Drops ended sequences and passes new tokens to the runner.
  void observe(const mortise_observation& seen);
  // Drops the drafts of an earlier proposal that no observation has followed. Call it at the beginning of a proposal.
  void drop_drafts();
  bool knows(std::uint64_t seq_id) const { return known_.contains(seq_id); }
  std::uint64_t num_sequences() const { return known_.size(); }

  // Returns a step without its outputs. Each of `draws` has a `seq_id` of the runner and a `row` of the proposal, whose
  // key, temperature and filters the draw uses. Valid until the next call.
  template <typename Draws>
  mortise_runner_step make_step(const mortise_proposal_args& args, const Draws& draws) {
    clear_step();
    for (const auto& draw : draws) add_to_step(args, draw.row, draw.seq_id);
    return step_of_all();
  }
  void run(const mortise_runner_step& step);
  // Replaces tokens behind those that were observed.
  void update(const mortise_runner_tokens& tokens);
  void fork(const mortise_runner_forks& forks);
  void end(std::span<const std::uint64_t> seq_ids);

 private:
  void clear_step();
  void add_to_step(const mortise_proposal_args& args, std::int32_t row, std::uint64_t seq_id);
  mortise_runner_step step_of_all() const;

  const mortise_host* host_;
  const std::string path_, options_;
  const mortise_runner_table* runners_ = nullptr;
  mortise_runner* runner_ = nullptr;
  std::map<std::uint64_t, std::int32_t> known_;  // sequences, and how many tokens of each were observed
  std::set<std::uint64_t> drafted_;              // sequences of known_ that may have drafts in the runner

  // Used by the current step only; members, so that their memory is reused.
  std::vector<std::uint64_t> ids_, keys_;
  std::vector<float> temperatures_, top_ps_, min_ps_;
  std::vector<std::int32_t> top_ks_;
};

}  // namespace mortise::proposers
