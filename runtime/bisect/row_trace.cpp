#include "bisect/row_trace.hpp"

#include <xxhash.h>

#include <cstring>
#include <utility>

namespace mortise {

RowTrace::RowTrace(std::uint64_t first_sequence, std::int32_t num_choices, std::optional<WantedOutput> wanted)
    : first_sequence_(first_sequence), num_choices_(num_choices), wanted_(std::move(wanted)) {}

void RowTrace::begin_step(const mortise_batch& batch) {
  num_tokens_ = batch.num_tokens;
  batch_rows_.clear();
  row_at_.clear();
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> seen;  // by choice and position
  for (std::int32_t run = 0; run < batch.num_real_seqs; ++run) {
    const std::uint64_t id = batch.seq_ids[run];
    if (id < first_sequence_ || id >= first_sequence_ + static_cast<std::uint64_t>(num_choices_)) continue;
    const auto choice = static_cast<std::int32_t>(id - first_sequence_);
    for (std::int32_t row = batch.cu_seqlens_q[run]; row < batch.cu_seqlens_q[run + 1]; ++row) {
      TracedRow traced{
          .choice = choice, .position = batch.positions[row], .token = batch.token_ids[row], .step = batch.step_id};
      if (row > batch.cu_seqlens_q[run]) {
        traced.behind = static_cast<std::int32_t>(rows_.size()) - 1;
      } else if (const auto before = seen.find({choice, traced.position - 1}); before != seen.end()) {
        traced.behind = static_cast<std::int32_t>(before->second);  // a row of a run of drafts
      }
      seen.insert_or_assign({choice, traced.position}, rows_.size());
      batch_rows_.push_back(row);
      row_at_[row] = rows_.size();
      rows_.push_back(std::move(traced));
    }
  }
}

void RowTrace::record(const TracedOp& op, const OutputRows& output, std::span<const std::int32_t> batch_rows) {
  auto [number, is_new] = op_numbers_.try_emplace(op.key, static_cast<std::uint32_t>(ops_.size()));
  if (is_new) ops_.push_back(op);
  for (std::size_t i = 0; i < batch_rows.size(); ++i) {
    const auto at = row_at_.find(batch_rows[i]);
    if (at == row_at_.end()) continue;
    buffer_.resize(static_cast<std::size_t>(output.outer * output.inner_bytes));
    const std::byte* from = output.data + static_cast<std::int64_t>(i) * output.row_stride;
    for (std::int64_t k = 0; k < output.outer; ++k) {
      std::memcpy(buffer_.data() + k * output.inner_bytes, from + k * output.outer_stride,
                  static_cast<std::size_t>(output.inner_bytes));
    }
    TracedRow& row = rows_[at->second];
    row.hashes.emplace_back(number->second, XXH64(buffer_.data(), buffer_.size(), 0));
    if (wanted_ && wanted_->choice == row.choice && wanted_->position == row.position && wanted_->op == op.key) {
      row.captured = buffer_;
    }
  }
}

std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> RowTrace::valid_rows(
    std::span<const std::vector<std::int32_t>> sequences) const {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> found;
  std::vector<bool> valid(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const TracedRow& row = rows_[i];
    const std::vector<std::int32_t>& tokens = sequences[static_cast<std::size_t>(row.choice)];
    const auto position = static_cast<std::size_t>(row.position);
    valid[i] = position < tokens.size() && tokens[position] == row.token &&
               (row.behind < 0 || valid[static_cast<std::size_t>(row.behind)]);
    if (valid[i]) found.try_emplace({row.choice, row.position}, i);
  }
  return found;
}

}  // namespace mortise
