#include "execution/edit_table.hpp"

#include <algorithm>
#include <bit>

namespace mortise {
namespace {

constexpr std::size_t kMin = 16;  // the smallest segment has room for this many edits

}  // namespace

void EditTable::end(std::span<const std::uint64_t> seq_ids) {
  for (const std::uint64_t id : seq_ids) {
    const auto at = segments_.find(id);
    if (at == segments_.end()) continue;
    give_back(at->second);
    segments_.erase(at);
  }
}

void EditTable::assign(std::span<const RowEdits> rows) {
  while (!try_assign(rows)) grow();
}

// Returns false if the table is too small.
bool EditTable::try_assign(std::span<const RowEdits> rows) {
  for (const Segment& segment : of_rows_) give_back(segment);
  of_rows_.clear();
  for (auto* array : {&begins_, &counts_, &places_}) array->clear();
  updates_.clear();
  for (const RowEdits& row : rows) {
    const Segment* const segment = row.edits.empty() ? nullptr : find(row);
    if (!row.edits.empty() && segment == nullptr) return false;
    begins_.push_back(segment == nullptr ? 0 : segment->begin);
    counts_.push_back(static_cast<std::int32_t>(row.edits.size()));
  }
  return true;
}

// Sends the row's changes and returns its segment, or null if there is no room for it.
EditTable::Segment* EditTable::find(const RowEdits& row) {
  if (row.seq_id == 0) {
    Segment segment;
    if (!allocate(row.edits.size(), segment)) return nullptr;
    of_rows_.push_back(segment);
    send(row, of_rows_.back());
    return &of_rows_.back();
  }
  const auto [at, fresh] = segments_.try_emplace(row.seq_id);
  Segment& segment = at->second;
  const bool has_room = !fresh && row.edits.size() <= kMin << segment.size_class;
  if (!has_room) {
    Segment larger;
    if (!allocate(row.edits.size(), larger)) {
      if (fresh) segments_.erase(at);
      return nullptr;
    }
    if (!fresh) give_back(segment);
    segment = larger;
  }
  send(row, segment);
  return &segment;
}

// Returns false if there is no room.
bool EditTable::allocate(std::size_t num_edits, Segment& segment) {
  const std::size_t room = std::max(std::bit_ceil(num_edits), kMin);
  const auto size_class = static_cast<std::size_t>(std::countr_zero(room / kMin));
  if (free_.size() <= size_class) free_.resize(size_class + 1);
  std::vector<std::int32_t>& free = free_[size_class];
  segment.size_class = static_cast<std::int32_t>(size_class);
  if (!free.empty()) {
    segment.begin = free.back();
    free.pop_back();
    return true;
  }
  if (used_ + static_cast<std::int64_t>(room) > size_) return false;
  segment.begin = static_cast<std::int32_t>(used_);
  used_ += static_cast<std::int64_t>(room);
  return true;
}

void EditTable::give_back(const Segment& segment) {
  free_[static_cast<std::size_t>(segment.size_class)].push_back(segment.begin);
}

// Sends each earlier edit that has changed since, once, and then all new edits.
void EditTable::send(const RowEdits& row, Segment& segment) {
  stale_.clear();
  for (const std::int32_t change : row.changes.subspan(segment.num_changes)) {
    if (static_cast<std::size_t>(change) < segment.num_edits) stale_.push_back(change);
  }
  std::ranges::sort(stale_);
  stale_.erase(std::unique(stale_.begin(), stale_.end()), stale_.end());
  for (const std::int32_t edit : stale_) send_edit(row, segment, static_cast<std::size_t>(edit));
  for (std::size_t edit = segment.num_edits; edit < row.edits.size(); ++edit) send_edit(row, segment, edit);
  segment.num_edits = row.edits.size();
  segment.num_changes = row.changes.size();
}

void EditTable::send_edit(const RowEdits& row, const Segment& segment, std::size_t edit) {
  places_.push_back(segment.begin + static_cast<std::int32_t>(edit));
  updates_.push_back(row.edits[edit]);
}

// Enlarges the table. Its contents are lost, so the edits of every sequence are sent again.
void EditTable::grow() {
  const std::int64_t wanted = std::max<std::int64_t>(2 * size_, 1 << 14);
  segments_.clear();
  of_rows_.clear();
  free_.clear();
  size_ = used_ = 0;  // stays 0 if the device has no memory
  data_ = static_cast<LogitEdit*>(memory_.reserve(static_cast<std::uint64_t>(wanted) * sizeof(LogitEdit)));
  size_ = wanted;
}

}  // namespace mortise
