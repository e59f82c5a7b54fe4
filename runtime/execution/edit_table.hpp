// runtime/execution/edit_table.hpp: keeps the edits of sequences' logits (sampling/edits.hpp) in device memory from
// step to step, so that a step sends only changes. Each sequence has a segment of the table with room for further
// edits. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "execution/device_memory.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// Invariant: segments never overlap, and each has room for the edits that were sent to it. Used only by the thread that
// runs steps.
class EditTable {
 public:
  explicit EditTable(const DevicePart& device) : memory_(device) {}

  // Frees the segments of these sequences; ignores unknown ids.
  void end(std::span<const std::uint64_t> seq_ids);
  // Finds a place for the edits of each row. The functions below describe these rows until the next call. Throws a
  // PartError.
  void assign(std::span<const RowEdits> rows);

  // Row r has counts()[r] edits from begins()[r] on. They are complete once the caller has written each updates()[i] to
  // places()[i]. All places differ.
  std::span<const std::int32_t> begins() const { return begins_; }
  std::span<const std::int32_t> counts() const { return counts_; }
  std::span<const LogitEdit> updates() const { return updates_; }
  std::span<const std::int32_t> places() const { return places_; }
  LogitEdit* data() const { return data_; }  // device memory, [size()]
  std::int64_t size() const { return size_; }

 private:
  struct Segment {
    std::int32_t begin = 0;
    std::int32_t size_class = 0;  // it has room for kMin << size_class edits
    std::size_t num_edits = 0;    // edits sent so far
    std::size_t num_changes = 0;  // how many of the sequence's changes are sent
  };
  bool try_assign(std::span<const RowEdits> rows);
  Segment* find(const RowEdits& row);
  bool allocate(std::size_t num_edits, Segment& segment);
  void give_back(const Segment& segment);
  void send(const RowEdits& row, Segment& segment);
  void send_edit(const RowEdits& row, const Segment& segment, std::size_t edit);
  void grow();

  DeviceBuffer memory_;
  LogitEdit* data_ = nullptr;
  std::int64_t size_ = 0, used_ = 0;
  std::unordered_map<std::uint64_t, Segment> segments_;  // by sequence
  std::vector<Segment> of_rows_;                         // of rows without a sequence, until the next call
  std::vector<std::vector<std::int32_t>> free_;          // by size class: the begins of free segments
  std::vector<std::int32_t> begins_, counts_, places_, stale_;
  std::vector<LogitEdit> updates_;
};

}  // namespace mortise
