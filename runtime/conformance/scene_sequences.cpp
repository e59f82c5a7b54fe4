#include "conformance/scene_sequences.hpp"

#include <algorithm>
#include <numeric>

#include "mortise/plugin.hpp"

namespace mortise::conformance {

SceneSequences::SceneSequences(const PartInstance& device, std::int32_t block_size, std::int32_t num_blocks)
    : device_(device),
      has_host_memory_(has_host_memory(device)),
      block_size_(block_size),
      free_blocks_(static_cast<std::size_t>(num_blocks - 1)) {
  std::iota(free_blocks_.begin(), free_blocks_.end(), 1);
}

std::int32_t SceneSequences::take_block() {
  if (free_blocks_.empty()) fail("the scene needs more KV blocks");
  const std::int32_t block = free_blocks_.front();
  free_blocks_.erase(free_blocks_.begin());
  return block;
}

std::size_t SceneSequences::add(std::vector<std::int32_t> tokens) {
  sequences_.push_back({sequences_.size() + 1, std::move(tokens), {}});
  Sequence& added = sequences_.back();
  const auto block_size = static_cast<std::size_t>(block_size_);
  while (added.blocks.size() * block_size < added.tokens.size()) added.blocks.push_back(take_block());
  return sequences_.size() - 1;
}

std::size_t SceneSequences::fork(std::size_t sequence, std::int32_t num_blocks, std::span<const std::int32_t> tokens) {
  const Sequence parent = sequences_[sequence];
  std::vector<std::int32_t> all(parent.tokens.begin(), parent.tokens.begin() + num_blocks * block_size_);
  all.insert(all.end(), tokens.begin(), tokens.end());
  const std::size_t index = add(std::move(all));
  std::vector<std::int32_t>& blocks = sequences_[index].blocks;
  free_blocks_.insert(free_blocks_.begin(), blocks.begin(), blocks.begin() + num_blocks);
  std::copy_n(parent.blocks.begin(), num_blocks, blocks.begin());
  return index;
}

void SceneSequences::end(std::size_t sequence) {
  std::vector<std::int32_t>& blocks = sequences_[sequence].blocks;
  free_blocks_.insert(free_blocks_.begin(), blocks.begin(), blocks.end());
  blocks.clear();
}

std::vector<std::int32_t> SceneSequences::replace_blocks(std::size_t sequence) {
  std::vector<std::int32_t> blocks;
  for (std::size_t i = 0; i < sequences_[sequence].blocks.size(); ++i) blocks.push_back(take_block());
  return std::exchange(sequences_[sequence].blocks, blocks);
}

SceneSequences::Arrays SceneSequences::arrays_of(const std::vector<SceneRun>& runs, const StepStyle& style) const {
  Arrays arrays;
  for (const SceneRun& run : runs) {
    const Sequence& sequence = sequences_[run.sequence];
    for (std::int32_t position = run.first; position < run.first + run.count; ++position) {
      arrays.token_ids.push_back(std::max(sequence.tokens[static_cast<std::size_t>(position)], 0));
      arrays.positions.push_back(position);
      const std::int64_t block = sequence.blocks[static_cast<std::size_t>(position / block_size_)];
      arrays.slot_mapping.push_back(block * block_size_ + position % block_size_);
    }
    arrays.seq_ids.push_back(sequence.id);
    arrays.seq_lens.push_back(run.first + run.count);
    arrays.cu_seqlens_q.push_back(static_cast<std::int32_t>(arrays.positions.size()));
    arrays.logit_rows.push_back(arrays.cu_seqlens_q.back() - 1);
    arrays.max_blocks = std::max(arrays.max_blocks, (arrays.seq_lens.back() - 1) / block_size_ + 1);
    arrays.max_query_len = std::max(arrays.max_query_len, run.count);
  }
  add_padding(arrays, style);
  if (style.is_bucket) arrays.max_blocks += 3;
  arrays.block_table.assign(arrays.seq_ids.size() * static_cast<std::size_t>(arrays.max_blocks), 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto used = (arrays.seq_lens[i] - 1) / block_size_ + 1;
    std::copy_n(sequences_[runs[i].sequence].blocks.begin(), used,
                arrays.block_table.begin() + static_cast<std::ptrdiff_t>(i) * arrays.max_blocks);
  }
  for (const SceneGroup& group : style.groups) {
    arrays.group_seqs.insert(arrays.group_seqs.end(), group.runs.begin(), group.runs.end());
    arrays.group_offsets.push_back(static_cast<std::int32_t>(arrays.group_seqs.size()));
    arrays.group_shared_tokens.push_back(group.shared_tokens);
    arrays.group_parents.push_back(group.parent);
  }
  return arrays;
}

// Padding has the form that batch.h describes: token 0, position 0, a slot of a reserved block, sequences of length 0.
void SceneSequences::add_padding(Arrays& arrays, const StepStyle& style) const {
  for (std::int32_t i = 0; i < style.padding; ++i) {
    arrays.token_ids.push_back(0);
    arrays.positions.push_back(0);
    arrays.slot_mapping.push_back(i % block_size_);
    arrays.seq_ids.push_back(0);
    arrays.seq_lens.push_back(0);
    arrays.cu_seqlens_q.push_back(static_cast<std::int32_t>(arrays.positions.size()));
  }
}

template <typename T>
const T* SceneSequences::on_device(const T* copy, const std::vector<T>& values, SceneBatch& to) const {
  if (has_host_memory_) return copy;
  to.device.push_back(std::make_unique<DeviceBuffer>(device_, std::span<const T>(values)));
  return to.device.back()->template data<T>();
}

void SceneSequences::copy_arrays(const Arrays& arrays, SceneBatch& to, mortise_batch& batch) const {
  const auto copy = [&](const auto& values, auto& host, auto& device) {
    host = to.host.copy(values);
    device = on_device(host, values, to);
  };
  batch.seq_ids = to.host.copy(arrays.seq_ids);
  copy(arrays.token_ids, batch.token_ids, batch.device_token_ids);
  copy(arrays.positions, batch.positions, batch.device_positions);
  copy(arrays.cu_seqlens_q, batch.cu_seqlens_q, batch.device_cu_seqlens_q);
  copy(arrays.seq_lens, batch.seq_lens, batch.device_seq_lens);
  copy(arrays.block_table, batch.block_table, batch.device_block_table);
  copy(arrays.slot_mapping, batch.slot_mapping, batch.device_slot_mapping);
  copy(arrays.logit_rows, batch.logit_rows, batch.device_logit_rows);
  if (batch.num_groups == 0) return;
  batch.group_offsets = to.host.copy(arrays.group_offsets);
  batch.group_seqs = to.host.copy(arrays.group_seqs);
  batch.group_shared_tokens = to.host.copy(arrays.group_shared_tokens);
  batch.group_parents = to.host.copy(arrays.group_parents);
}

std::unique_ptr<SceneBatch> SceneSequences::batch_of(const std::vector<SceneRun>& runs, const StepStyle& style) {
  const Arrays arrays = arrays_of(runs, style);
  auto made = std::make_unique<SceneBatch>();
  auto batch = sized<mortise_batch>();
  batch.flags = style.is_bucket ? MORTISE_BATCH_BUCKET : 0;
  batch.step_id = ++step_id_;
  batch.num_seqs = static_cast<std::int32_t>(arrays.seq_ids.size());
  batch.num_tokens = static_cast<std::int32_t>(arrays.positions.size());
  batch.num_logit_rows = static_cast<std::int32_t>(arrays.logit_rows.size());
  batch.num_real_seqs = static_cast<std::int32_t>(runs.size());
  batch.num_real_tokens = batch.num_tokens - style.padding;
  batch.block_size = block_size_;
  batch.max_blocks = arrays.max_blocks;
  batch.max_query_len = arrays.max_query_len + (style.is_bucket ? 2 : 0);
  batch.max_seq_len = style.is_bucket ? arrays.max_blocks * block_size_ : *std::ranges::max_element(arrays.seq_lens);
  batch.num_groups = static_cast<std::int32_t>(style.groups.size());
  copy_arrays(arrays, *made, batch);
  made->batch = made->host.copy(&batch, 1);
  return made;
}

}  // namespace mortise::conformance
