// plugins/proposers/draft_model/draft_model.hpp: drafts with a smaller model of the target's vocabulary. The host runs
// it (mortise/ext/runner.h) and keeps its tokens and its KV; here is which sequences draft how far.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "mortise/ext/runner.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace mortise::draft_model {

class DraftModel {
 public:
  DraftModel(const mortise_host* host, const Options& options);
  ~DraftModel();
  DraftModel(const DraftModel&) = delete;
  DraftModel& operator=(const DraftModel&) = delete;

  void bind();
  void observe(const mortise_observation& seen);
  void propose(const mortise_proposal_args& args);

  std::uint64_t num_sequences() const { return known_.size(); }

 private:
  bool add_drafts(const mortise_proposal_args& args, std::int32_t depth);

  const mortise_host* host_;
  const std::string path_, runner_options_;
  const mortise_runner_table* runners_ = nullptr;
  mortise_runner* runner_ = nullptr;
  std::set<std::uint64_t> known_;  // sequences that the runner has tokens of

  // Of the sequences that go on in a pass; kept for their memory.
  std::vector<std::int32_t> rows_, next_rows_;  // in the proposal's arrays
  std::vector<std::uint64_t> ids_, keys_;
  std::vector<float> temperatures_, top_ps_, min_ps_;
  std::vector<std::int32_t> top_ks_, sampled_;
};

}  // namespace mortise::draft_model
