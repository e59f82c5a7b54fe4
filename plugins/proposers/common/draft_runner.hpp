// plugins/proposers/common/draft_runner.hpp: a draft model that the host runs for a proposer (mortise/ext/runner.h):
// opened, told of its sequences, stepped. What fails is thrown as a Failure with the host's words.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mortise/ext/runner.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace mortise::proposers {

class DraftRunner {
 public:
  // `path` and `options` as mortise_runner_open_args has them.
  DraftRunner(const mortise_host* host, std::string path, std::string options);
  ~DraftRunner();
  DraftRunner(const DraftRunner&) = delete;
  DraftRunner& operator=(const DraftRunner&) = delete;

  // In the proposer's bind. `max_forks` as mortise_runner_open_args has it.
  void open(std::int32_t max_forks = 0);
  const mortise_model_dims& dims() const { return *runners_->dims(runner_); }

  // Drops who ended and takes the tokens.
  void observe(const mortise_observation& seen);
  bool knows(std::uint64_t seq_id) const { return known_.contains(seq_id); }
  std::uint64_t num_sequences() const { return known_.size(); }

  // A step, but for its outputs: each of `draws` has a `seq_id` of the runner and the `row` of the proposal that it is
  // drawn for, with that one's key, temperature and filters. Valid until the next call.
  template <typename Draws>
  mortise_runner_step make_step(const mortise_proposal_args& args, const Draws& draws) {
    clear_step();
    for (const auto& draw : draws) add_to_step(args, draw.row, draw.seq_id);
    return step_of_all();
  }
  void run(const mortise_runner_step& step);
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
  std::set<std::uint64_t> known_;  // sequences that the runner has tokens of

  // Of the step that is made now; kept for their memory.
  std::vector<std::uint64_t> ids_, keys_;
  std::vector<float> temperatures_, top_ps_, min_ps_;
  std::vector<std::int32_t> top_ks_;
};

}  // namespace mortise::proposers
