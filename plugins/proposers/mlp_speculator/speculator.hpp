// plugins/proposers/mlp_speculator/speculator.hpp: one proposer instance, from its checkpoint to drafts. A stage reads
// the previous state and token and computes the next of both:
//   p = proj_i(state);  state := gelu(norm_i(state_weight * p + emb_weight * emb_i[token]))     norm: rms, weight, bias
//   token := drawn from head_i(state) as the target draws at that position: same key, temperature, filters
// The first state is the target's hidden row (with scale_input: its rms norm / sqrt 2). The first token is the last
// committed token. All sequences go through a stage together. Tokens come back to the host once, after the last stage.
// Not thread-safe: the host makes one call at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mortise/ext/checkpoint.h"
#include "proposers/mlp_speculator/hidden_rows.hpp"
#include "proposers/mlp_speculator/weights.hpp"

namespace mortise::mlp_speculator {

// Invariant: all buffers have room for max_rows_ rows, and max_drafts_ is at most the checkpoint's number of stages.
// Not thread-safe: the host makes one call at a time.
class Speculator {
 public:
  // REQUIRES: the options were validated by the schema.
  Speculator(const mortise_host* host, const mortise_create_args& args, const Options& options);

  // Opens the checkpoint, checks it against the target and loads it. Throws Failure.
  void bind(const mortise_proposer_bind_args& args);
  int32_t max_drafts() const { return max_drafts_; }
  void activate(const mortise_activate_args& args);
  void deactivate();
  void observe(const mortise_observation& seen) { rows_.observe(seen); }
  void propose(const mortise_step& step, const mortise_proposal_args& args);
  std::size_t num_sequences() const { return rows_.num_sequences(); }

 private:
  struct Ask;
  struct Upload;
  void check_against(const mortise_model_dims& target) const;
  void fill_biases();
  std::vector<Ask> asked(const mortise_proposal_args& args) const;
  Upload upload(const mortise_step& step, const mortise_proposal_args& args, const Ask* asks, int32_t count,
                int32_t num_stages);
  void draft(const mortise_step& step, const mortise_proposal_args& args, const Ask* asks, int32_t count);
  void run_stage(const mortise_step& step, int32_t stage, const Upload& given, int32_t count);

  const mortise_host& host_;
  const DeviceRef device_;
  const std::string path_;
  int32_t max_drafts_;  // 0 before bind(): the checkpoint's number of stages
  Config config_;
  WeightFormat format_;
  Weights weights_;
  HiddenRows rows_;

  int32_t max_rows_ = 0;         // the most sequences that go through the stages together
  RowBuffer input_;              // [emb_dim]
  RowBuffer state_, embedded_;   // [inner_dim]
  std::vector<RowBuffer> bias_;  // [inner_dim], one for each norm; every row is its bias
  DeviceMemory logits_;          // f32 [max_rows, vocab_size]
  DeviceMemory drawn_;           // i32 [num_stages, max_rows]
  DeviceMemory uploaded_;
};

}  // namespace mortise::mlp_speculator
