// runtime/execution/side_run.hpp: a candidate's attention or model beside a serving shard: it computes the same steps,
// and what it computes is compared bit by bit. With the serving model the attentions are compared, layer by layer
// (AttentionPair); another model runs on its own with its attention, and what is compared are the hidden rows that want
// logits, and the logits. Both keep KV of their own in blocks of the same ids.
//
// All calls come from the thread that runs steps.
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

class Shard;

class SideRun {
 public:
  // All parts are active and bound to KV memory of `limits`, which outlive this. `generation` is above the serving
  // parts'. Throws a PartError.
  SideRun(const ShardParts& serving, const ShardParts& candidate, const ExecutionLimits& limits,
          std::uint64_t generation);
  ~SideRun();
  SideRun(const SideRun&) = delete;
  SideRun& operator=(const SideRun&) = delete;

  // The serving forward is not to be captured, since the attention calls in it are what is compared.
  bool is_within_forward() const { return pair_ != nullptr; }
  bool wants_groups() const { return wants_groups_; }  // prefix groups in the serving batch
  // Around the serving forward of a step, behind the serving attention's plan. Neither throws.
  void begin(mortise_step& step);
  void finish(const StepWork& work, Shard& serving);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // The first one. Nothing is run or compared behind it.
  const std::optional<Difference>& difference() const;
  bool compares_models() const { return shard_ != nullptr; }
  // Compared rows: attention outputs of all layers, or rows that want logits.
  std::uint64_t num_rows() const { return pair_ ? pair_->num_rows() : num_rows_; }

 private:
  void compare(const StepWork& work, Shard& serving);
  bool compare_rows(const mortise_batch& batch, std::int64_t first, const mortise_tensor& serving,
                    const mortise_tensor& candidate, const char* what);

  const ExecutionLimits& limits_;
  const bool wants_groups_;
  std::unique_ptr<AttentionPair> pair_;
  // Of another model.
  const DevicePart serving_device_, candidate_device_;
  std::unique_ptr<Shard> shard_;
  Download serving_rows_, candidate_rows_;
  std::optional<Difference> difference_;
  std::uint64_t num_rows_ = 0;
};

}  // namespace mortise
