#include "execution/shard.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace mortise {
namespace {

// Returns the batch rows that need logits, ascending.
std::vector<std::int32_t> logit_rows(const StepWork& work) {
  std::vector<std::int32_t> rows = work.draws.rows;
  rows.insert(rows.end(), work.scores.rows.begin(), work.scores.rows.end());
  if (!std::ranges::is_sorted(rows)) std::ranges::sort(rows);  // those of most steps are
  return rows;
}

// Returns the numbers of rows of the steps that are tried at a start, descending.
std::vector<std::int32_t> sizes_to_try(std::int32_t most) {
  std::vector<std::int32_t> sizes;
  for (std::int32_t rows = 1; rows <= most; rows *= 2) {
    sizes.push_back(rows);
    // With many rows, devices choose algorithms for finer steps of size.
    if (rows >= 64 && rows + rows / 2 <= most) sizes.push_back(rows + rows / 2);
  }
  std::ranges::reverse(sizes);
  return sizes;
}

}  // namespace

Shard::Shard(ShardParts parts, std::int32_t rank, const RankGroup& ranks, std::uint64_t generation,
             const ExecutionLimits& limits)
    : parts_(std::move(parts)),
      rank_(rank),
      ranks_(ranks),
      generation_(generation),
      limits_(limits),
      computes_behind_(!shares_host_memory(parts_.device)),
      batch_builder_(parts_, limits_),
      graphs_(parts_, limits_),
      evaluator_(parts_, limits_, /*shows_logits=*/rank == 0) {}

void Shard::run_largest() {
  if (limits_.padding_block < 0) return;
  run_padding(limits_.max_batched_tokens, 0);
  untried_sizes_ = sizes_to_try(std::min(StepGraphs::kMaxRows, limits_.max_batched_tokens));
}

bool Shard::differs_in_attention_alone(const ShardParts& parts) const {
  return parts.device.self == parts_.device.self && parts.model.self == parts_.model.self;
}

void Shard::replace_attention(ShardParts parts, std::uint64_t generation) {
  std::swap(parts_, parts);
  std::swap(generation_, generation);
  try {
    if (limits_.padding_block >= 0) {
      run_padding(1, 0);
      synchronize(parts_.device);
    }
  } catch (...) {
    std::swap(parts_, parts);
    std::swap(generation_, generation);
    throw;
  }
  graphs_.clear();
}

mortise_step Shard::empty_step() const {
  mortise_step step{};
  step.struct_size = sizeof step;
  step.generation = generation_;
  step.device = parts_.device.self;
  step.device_table = parts_.device.api;
  step.attention = parts_.attention.self;
  step.attention_table = parts_.attention.api;
  step.rank = rank_;
  step.world = ranks_.world();
  step.communicator = ranks_.communicator(rank_);
  step.collective = ranks_.table();
  return step;
}

void Shard::forward(const StepWork& work, SideRun* beside) {
  std::optional<BatchBucket> bucket;
  if (beside == nullptr || !beside->is_within_forward()) bucket = graphs_.bucket_of(work.runs);
  batch_builder_.tell_prefix_groups(parts_.prefix_groups || (beside != nullptr && beside->wants_prefix_groups()));
  const mortise_batch& batch =
      batch_builder_.build(work.step_id, work.runs, logit_rows(work), work.ended, bucket ? &*bucket : nullptr);
  num_real_tokens_ = batch.num_real_tokens;
  step_ = empty_step();
  step_.batch = &batch;
  parts_.attention.call<&mortise_attention_table::plan>("plan", &step_);
  if (beside == nullptr) {
    hidden_ = graphs_.forward(step_, bucket);
    return;
  }
  mortise_step step = step_;
  beside->begin(step);
  hidden_ = graphs_.forward(step, bucket);
  beside->finish(work, *this);
}

Shard::HeadRows Shard::head_rows(std::int64_t first, std::int64_t count) {
  const mortise_tensor logits = evaluator_.head().run(step_, hidden_, step_.batch->device_logit_rows + first, count);
  return {evaluator_.head().selected(), logits};
}

void Shard::evaluate(const StepWork& work) {
  evaluator_.launch(step_, hidden_, work);
}

StepResults Shard::collect() {
  return evaluator_.collect();
}

void Shard::copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to) {
  if (from.empty()) return;
  parts_.attention.call<&mortise_attention_table::copy_blocks>("copy_blocks", nullptr, from.data(), to.data(),
                                                               static_cast<std::int32_t>(from.size()));
}

// Runs a step of `rows` padding rows, `num_logits` of which go through the head.
void Shard::run_padding(std::int32_t rows, std::int32_t num_logits) {
  const BatchBucket bucket = {rows, 1, rows, 1};
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(num_logits));
  std::iota(numbers.begin(), numbers.end(), 0);
  mortise_batch batch = batch_builder_.build(0, {}, numbers, {}, &bucket);
  batch.flags = 0;  // it is not replayed
  mortise_step step = empty_step();
  step.batch = &batch;
  parts_.attention.call<&mortise_attention_table::plan>("plan", &step);
  const mortise_tensor hidden = graphs_.forward(step, std::nullopt);
  if (num_logits > 0) evaluator_.head().run(step, hidden, batch.device_logit_rows, num_logits);
}

void Shard::try_next_size() {
  if (untried_sizes_.empty()) return;
  const std::int32_t rows = untried_sizes_.back();
  untried_sizes_.pop_back();
  run_padding(rows, std::min(rows, limits_.max_logit_rows));
}

}  // namespace mortise
