// plugins/proposers/mlp_speculator/hidden_rows.hpp: keeps for each sequence its last token and the hidden row from
// which it was drawn. The rows lie in device memory and never pass through the host.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "mortise/device.hpp"
#include "mortise/proposer.h"

namespace mortise::mlp_speculator {

// Invariant: at most `capacity` sequences are kept, each with its own row of rows(). Not thread-safe: the host makes
// one call at a time.
class HiddenRows {
 public:
  HiddenRows() = default;
  // Keeps the rows of up to `capacity` sequences: first the sequences of the latest step, then the others seen most
  // recently.
  HiddenRows(DeviceRef device, int32_t dtype, int32_t capacity, int32_t columns);

  // Throws a Failure for rows of another width or type, and when the device fails. All rows are dropped then.
  void observe(const mortise_observation& seen);

  struct Kept {
    int32_t row;  // of rows()
    int32_t last_token;
    int64_t num_tokens;  // of the sequence, last_token included
    uint64_t seen;       // number of the observation in which the sequence was last seen
  };
  // Returns null if there is no row, or if it does not belong to the sequence's last token.
  const Kept* find(uint64_t seq_id, int64_t num_tokens) const;
  mortise_tensor rows() const { return buffers_[current_].rows(capacity_); }
  std::size_t num_sequences() const { return kept_.size(); }

 private:
  void take(const mortise_observation& seen);
  void drop_beyond(std::size_t room);
  void gather(const mortise_tensor& from, const std::vector<int32_t>& rows, const mortise_tensor& to);

  DeviceRef device_;
  int32_t capacity_ = 0;
  int32_t dtype_ = 0, columns_ = 0;
  // Rows are gathered from one buffer into the other, because the device cannot scatter rows within a buffer.
  std::array<RowBuffer, 2> buffers_;
  int current_ = 0;
  DeviceMemory row_numbers_;  // i32 [capacity]
  std::unordered_map<uint64_t, Kept> kept_;
  uint64_t num_observations_ = 0;
};

}  // namespace mortise::mlp_speculator
