// runtime/execution/side_run.hpp: runs a candidate's attention or model beside a serving shard, over the same steps,
// and compares the results bit by bit. If the model is the same, the attentions are compared layer by layer
// (AttentionPair). A different model runs separately with its own attention; then the hidden rows that need logits, and
// the logits, are compared. In both cases the candidate has its own KV memory with the same block ids.
//
// Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "execution/attention_pair.hpp"
#include "execution/difference.hpp"
#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "execution/step_work.hpp"

namespace mortise {

class RankGroup;
class Shard;

// Invariant: at most one of pair_ and shard_ is set. The candidate writes only to its own memory. Used only by the
// thread that runs steps.
class SideRun {
 public:
  // All parts are active and bound to KV memory of the sizes in `limits`, which outlives this. `generation` is above
  // that of the serving parts. Throws a PartError.
  SideRun(const ShardParts& serving, const ShardParts& candidate, const ExecutionLimits& limits,
          std::uint64_t generation);
  ~SideRun();
  SideRun(const SideRun&) = delete;
  SideRun& operator=(const SideRun&) = delete;

  // Returns whether the comparison happens inside the serving attention calls. The serving forward must not be captured
  // then.
  bool is_within_forward() const { return pair_ != nullptr; }
  bool wants_prefix_groups() const { return wants_prefix_groups_; }  // the serving batch must list prefix groups
  // Called before and after the serving forward of a step. REQUIRES: the serving attention has planned it. Neither
  // throws.
  void begin(mortise_step& step);
  void finish(const StepWork& work, Shard& serving);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // Returns the first difference. Nothing is run or compared once there is one.
  const std::optional<Difference>& difference() const;
  bool compares_models() const { return shard_ != nullptr; }
  // Rows compared: attention outputs of all layers, or rows that need logits.
  std::uint64_t num_rows() const { return pair_ ? pair_->num_rows() : num_rows_; }

 private:
  void compare(const StepWork& work, Shard& serving);
  bool compare_rows(const mortise_batch& batch, std::int64_t first, const mortise_tensor& serving,
                    const mortise_tensor& candidate, const char* what);

  const ExecutionLimits& limits_;
  const bool wants_prefix_groups_;
  std::unique_ptr<AttentionPair> pair_;
  // Only for a different model.
  const DevicePart serving_device_, candidate_device_;
  std::unique_ptr<RankGroup> alone_;  // of the one rank
  std::unique_ptr<Shard> shard_;
  Download serving_rows_, candidate_rows_;
  std::optional<Difference> difference_;
  std::uint64_t num_rows_ = 0;
};

}  // namespace mortise
