// runtime/execution/shard.hpp: one device with its share of the model and of the KV memory, and everything whose size
// depends on them: the batch in device memory, captured graphs, the head's buffers, sampling. An Execution has one for
// each rank. The thread of its rank calls it, or the thread that runs steps while no step runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "execution/batch_builder.hpp"
#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "execution/rank_group.hpp"
#include "execution/row_evaluator.hpp"
#include "execution/side_run.hpp"
#include "execution/step_graphs.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// Invariant: graphs, batch and buffers belong to the shard's current parts. For one thread at a time.
class Shard {
 public:
  // `ranks` and `limits` outlive the shard.
  Shard(ShardParts parts, std::int32_t rank, const RankGroup& ranks, std::uint64_t generation,
        const ExecutionLimits& limits);

  // If there is a padding block, runs the largest batch once, so that operations allocate their own memory now or the
  // start fails. All ranks call it at the same time, and so the other functions that run steps.
  void run_largest();

  // Returns whether replace_attention() can put these parts in.
  bool differs_in_attention_alone(const ShardParts& parts) const;
  // Replaces the attention by another one of the same sizes, and keeps everything that was prepared for device and
  // model. Runs one padding row with it; graphs are captured again later. If that row throws, nothing has changed.
  // REQUIRES: differs_in_attention_alone(parts); no step is between forward() and collect().
  void replace_attention(ShardParts parts, std::uint64_t generation);

  // Runs decode and verify steps of all sizes with their head. A device may search for its fastest algorithms here, so
  // that no request has to wait for that. Each call tries one more size. REQUIRES: no step is between forward() and
  // collect().
  std::size_t num_untried_sizes() const { return untried_sizes_.size(); }
  void try_next_size();

  // Run the three phases of a step, in this order; see Execution::launch and collect. `beside`, if set, computes the
  // same.
  void forward(const StepWork& work, SideRun* beside = nullptr);
  void evaluate(const StepWork& work);
  StepResults collect();

  // Returns the batch as forward() ran it, with padding. head_rows() gives the head's input and output for some of the
  // rows that need logits, in device memory, valid until the next call or evaluate().
  const mortise_batch& batch() const { return *step_.batch; }
  struct HeadRows {
    mortise_tensor hidden, logits;
  };
  // REQUIRES: 1 <= count <= max_logit_rows.
  HeadRows head_rows(std::int64_t first, std::int64_t count);

  bool computes_behind() const { return computes_behind_; }
  const DevicePart& device() const { return parts_.device; }
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // Returns a step of these parts without a batch.
  mortise_step empty_step() const;
  const mortise_tensor& hidden() const { return hidden_; }
  std::int32_t num_real_tokens() const { return num_real_tokens_; }
  const StepGraphs& graphs() const { return graphs_; }

 private:
  void run_padding(std::int32_t rows, std::int32_t num_logits);

  ShardParts parts_;
  const std::int32_t rank_;
  const RankGroup& ranks_;
  std::uint64_t generation_;
  const ExecutionLimits& limits_;
  const bool computes_behind_;  // the device's streams are not synchronous
  BatchBuilder batch_builder_;
  StepGraphs graphs_;
  RowEvaluator evaluator_;
  std::vector<std::int32_t> untried_sizes_;  // the next size is the last element

  // Of the running step.
  mortise_step step_{};
  mortise_tensor hidden_{};
  std::int32_t num_real_tokens_ = 0;
};

}  // namespace mortise
