#include "proposers/mlp_speculator/hidden_rows.hpp"

#include <algorithm>

namespace mortise::mlp_speculator {

HiddenRows::HiddenRows(DeviceRef device, int32_t dtype, int32_t capacity, int32_t columns)
    : device_(device),
      capacity_(capacity),
      dtype_(dtype),
      columns_(columns),
      buffers_{RowBuffer(device, dtype, capacity, columns), RowBuffer(device, dtype, capacity, columns)},
      row_numbers_(device, static_cast<uint64_t>(capacity) * sizeof(int32_t)) {}

const HiddenRows::Kept* HiddenRows::find(uint64_t seq_id, int64_t num_tokens) const {
  const auto at = kept_.find(seq_id);
  return at == kept_.end() || at->second.num_tokens != num_tokens ? nullptr : &at->second;
}

// Keeps the `room` sequences that were seen last, and drops the others.
void HiddenRows::drop_beyond(std::size_t room) {
  while (kept_.size() > room) {
    const auto older = [](const auto& a, const auto& b) { return a.second.seen < b.second.seen; };
    kept_.erase(std::min_element(kept_.begin(), kept_.end(), older));
  }
}

void HiddenRows::gather(const mortise_tensor& from, const std::vector<int32_t>& rows, const mortise_tensor& to) {
  if (rows.empty()) return;
  auto* const numbers = static_cast<int32_t*>(row_numbers_.get());
  mortise_error error = make_error();
  const mortise_device_table& table = *device_.table;
  check(table.copy(device_.device, nullptr, numbers, rows.data(), rows.size() * sizeof(int32_t), &error), error);
  check(table.gather_rows(device_.device, nullptr, &from, numbers, &to, &error), error);
}

void HiddenRows::observe(const mortise_observation& seen) {
  try {
    take(seen);
  } catch (...) {
    kept_.clear();
    throw;
  }
}

void HiddenRows::take(const mortise_observation& seen) {
  ++num_observations_;
  for (int32_t i = 0; i < seen.num_ended; ++i) kept_.erase(seen.ended_ids[i]);
  // the stored row belongs to an earlier token
  for (int32_t i = 0; i < seen.num_seqs; ++i) kept_.erase(seen.seq_ids[i]);
  if (seen.num_seqs == 0 || seen.hidden == nullptr) return;
  const mortise_tensor& hidden = *seen.hidden;
  if (hidden.ndim != 2 || hidden.shape[1] != columns_ || hidden.dtype != dtype_) {
    throw Failure(MORTISE_INVALID_ARGUMENT, "observe", "the hidden rows do not have the target's width and type");
  }

  std::vector<int32_t> fresh, older;
  std::vector<int32_t> sequences;
  for (int32_t i = 0; i < seen.num_seqs && static_cast<int32_t>(fresh.size()) < capacity_; ++i) {
    if (seen.hidden_rows[i] < 0 || seen.token_offsets[i] == seen.token_offsets[i + 1]) continue;
    fresh.push_back(seen.hidden_rows[i]);
    sequences.push_back(i);
  }
  drop_beyond(static_cast<std::size_t>(capacity_) - fresh.size());
  const auto num_fresh = static_cast<int32_t>(fresh.size());
  const mortise_tensor from = rows();
  const mortise_tensor to = buffers_[1 - current_].rows(capacity_);
  for (auto& [id, kept] : kept_) {
    older.push_back(kept.row);
    kept.row = num_fresh + static_cast<int32_t>(older.size()) - 1;
  }
  const auto part = [&](int32_t begin, std::size_t count) {
    mortise_tensor tensor = to;
    const int64_t offset = begin * to.stride[0] * dtype_bytes(dtype_);
    tensor.data = static_cast<char*>(to.data) + offset;
    tensor.bytes = to.bytes - static_cast<uint64_t>(offset);
    tensor.shape[0] = static_cast<int64_t>(count);
    return tensor;
  };
  gather(hidden, fresh, part(0, fresh.size()));
  gather(from, older, part(num_fresh, older.size()));
  current_ = 1 - current_;
  for (int32_t k = 0; k < num_fresh; ++k) {
    const int32_t i = sequences[static_cast<std::size_t>(k)], end = seen.token_offsets[i + 1];
    const int64_t num_tokens = int64_t{seen.first_positions[i]} + (end - seen.token_offsets[i]);
    kept_[seen.seq_ids[i]] = {k, seen.tokens[end - 1], num_tokens, num_observations_};
  }
}

}  // namespace mortise::mlp_speculator
