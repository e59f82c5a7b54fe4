#include "execution/batch_builder.hpp"

#include <algorithm>
#include <cassert>

namespace mortise {

namespace {

// Returns the bytes of the largest possible batch. A sequence has no more blocks than the model's length needs or the
// pool has.
std::uint64_t largest_upload(const ExecutionLimits& limits) {
  constexpr std::uint64_t kAlignment = 64, kArrays = 8;
  const auto tokens = static_cast<std::uint64_t>(limits.max_batched_tokens);
  const auto seqs = static_cast<std::uint64_t>(limits.max_batch_seqs()) + 1;
  const auto by_length = static_cast<std::uint64_t>(limits.max_model_len / limits.block_size) + 1;
  const std::uint64_t blocks = std::min(by_length, static_cast<std::uint64_t>(limits.num_blocks)) + 1;
  const std::uint64_t of_token = 3 * sizeof(std::int32_t) + sizeof(std::int64_t);
  // Padding to a bucket can double the numbers of rows, sequences and blocks.
  return 2 * tokens * of_token + 2 * seqs * (2 + 2 * blocks) * sizeof(std::int32_t) + kArrays * kAlignment;
}

}  // namespace

BatchBuilder::BatchBuilder(const ShardParts& parts, const ExecutionLimits& limits)
    : upload_(parts.device),
      block_size_(limits.block_size),
      max_model_len_(limits.max_model_len),
      padding_block_(limits.padding_block),
      tells_prefix_groups_(parts.prefix_groups),
      prefix_groups_(limits.block_size) {
  upload_.reserve(largest_upload(limits));
}

void BatchBuilder::add_run(const RowRun& run) {
  const std::int32_t end = run.first + run.num_rows();
  assert(static_cast<std::int64_t>(run.blocks.size()) * block_size_ >= end);
  if (run.known.size() == 1 && run.drafts.empty()) {  // as most runs
    token_ids_.push_back(run.known.front());
  } else {
    token_ids_.insert(token_ids_.end(), run.known.begin(), run.known.end());
    token_ids_.insert(token_ids_.end(), run.drafts.begin(), run.drafts.end());
  }
  for (std::int32_t position = run.first; position < end; ++position) {
    positions_.push_back(position);
    const BlockId block = run.blocks[static_cast<std::size_t>(position / block_size_)];
    slot_mapping_.push_back(static_cast<std::int64_t>(block) * block_size_ + position % block_size_);
  }
  seq_ids_.push_back(run.seq_id);
  seq_lens_.push_back(end);
  cu_seqlens_q_.push_back(static_cast<std::int32_t>(token_ids_.size()));
}

// Adds padding sequences. They share the rows that are missing to fill the bucket; the last ones may have none.
void BatchBuilder::add_padding(const BatchBucket& bucket) {
  const auto missing_seqs = bucket.num_seqs - static_cast<std::int32_t>(seq_ids_.size());
  for (std::int32_t i = 0; i < missing_seqs; ++i) {
    const auto missing_rows = bucket.num_tokens - static_cast<std::int32_t>(token_ids_.size());
    const std::int32_t rows = (missing_rows + missing_seqs - i - 1) / (missing_seqs - i);
    assert(rows <= bucket.max_query_len);
    for (std::int32_t row = 0; row < rows; ++row) {
      token_ids_.push_back(0);
      positions_.push_back(0);
      slot_mapping_.push_back(static_cast<std::int64_t>(padding_block_) * block_size_ + row % block_size_);
    }
    seq_ids_.push_back(0);  // no real sequence has this id
    seq_lens_.push_back(0);
    cu_seqlens_q_.push_back(static_cast<std::int32_t>(token_ids_.size()));
  }
  assert(static_cast<std::int32_t>(token_ids_.size()) == bucket.num_tokens);
}

void BatchBuilder::add_table(std::span<const RowRun> runs, const BatchBucket* bucket) {
  std::size_t width = bucket == nullptr ? 1 : static_cast<std::size_t>(bucket->max_blocks);
  for (const RowRun& run : runs) width = std::max(width, run.blocks.size());
  assert(bucket == nullptr || width == static_cast<std::size_t>(bucket->max_blocks));
  block_table_.assign(seq_ids_.size() * width, std::max(padding_block_, 0));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::ranges::copy(runs[i].blocks, block_table_.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  batch_.max_blocks = static_cast<std::int32_t>(width);
}

void BatchBuilder::add_prefix_groups(std::span<const RowRun> runs) {
  prefix_groups_.assign(runs);
  batch_.num_groups = prefix_groups_.size();
  batch_.group_offsets = prefix_groups_.offsets().data();
  batch_.group_seqs = prefix_groups_.seqs().data();
  batch_.group_shared_tokens = prefix_groups_.shared_tokens().data();
  batch_.group_parents = prefix_groups_.parents().data();
}

const mortise_batch& BatchBuilder::build(std::uint64_t step_id, std::span<const RowRun> runs,
                                         std::span<const std::int32_t> logit_rows, std::span<const std::uint64_t> ended,
                                         const BatchBucket* bucket) {
  for (auto* array : {&token_ids_, &positions_, &cu_seqlens_q_, &seq_lens_}) array->clear();
  seq_ids_.clear();
  slot_mapping_.clear();
  logit_rows_.assign(logit_rows.begin(), logit_rows.end());
  ended_.assign(ended.begin(), ended.end());
  batch_ = {};
  batch_.struct_size = sizeof batch_;
  batch_.step_id = step_id;
  batch_.block_size = block_size_;

  cu_seqlens_q_.push_back(0);
  for (const RowRun& run : runs) {
    add_run(run);
    batch_.max_query_len = std::max(batch_.max_query_len, run.num_rows());
    batch_.max_seq_len = std::max(batch_.max_seq_len, seq_lens_.back());
  }
  batch_.num_real_seqs = static_cast<std::int32_t>(runs.size());
  batch_.num_real_tokens = static_cast<std::int32_t>(token_ids_.size());
  if (bucket != nullptr) {
    add_padding(*bucket);
    batch_.flags = MORTISE_BATCH_BUCKET;
    batch_.max_query_len = bucket->max_query_len;
    batch_.max_seq_len = std::min(bucket->max_blocks * block_size_, max_model_len_);
  }
  add_table(runs, bucket);
  if (tells_prefix_groups_) add_prefix_groups(runs);

  batch_.num_seqs = static_cast<std::int32_t>(seq_ids_.size());
  batch_.num_tokens = static_cast<std::int32_t>(token_ids_.size());
  batch_.num_logit_rows = static_cast<std::int32_t>(logit_rows_.size());
  batch_.num_ended = static_cast<std::int32_t>(ended_.size());
  batch_.seq_ids = seq_ids_.data();
  batch_.ended_ids = ended_.data();
  upload();
  return batch_;
}

// The logit rows come last, so all other arrays of a bucket have fixed addresses.
void BatchBuilder::upload() {
  upload_.clear();
  const auto put = [this](const std::vector<std::int32_t>& values) { return upload_.put(std::span(values)); };
  const std::size_t tokens = put(token_ids_), positions = put(positions_), cu = put(cu_seqlens_q_),
                    lens = put(seq_lens_), table = put(block_table_);
  const std::size_t slots = upload_.put(std::span<const std::int64_t>(slot_mapping_));
  const std::size_t logits = put(logit_rows_);
  upload_.upload();
  const auto place = [this](std::size_t offset, const auto*& host, const auto*& device) {
    using T = std::remove_cvref_t<decltype(*host)>;
    host = upload_.host<T>(offset);
    device = upload_.device<T>(offset);
  };
  place(tokens, batch_.token_ids, batch_.device_token_ids);
  place(positions, batch_.positions, batch_.device_positions);
  place(cu, batch_.cu_seqlens_q, batch_.device_cu_seqlens_q);
  place(lens, batch_.seq_lens, batch_.device_seq_lens);
  place(table, batch_.block_table, batch_.device_block_table);
  place(logits, batch_.logit_rows, batch_.device_logit_rows);
  place(slots, batch_.slot_mapping, batch_.device_slot_mapping);
}

}  // namespace mortise
