// runtime/execution/row_scores.hpp: the results of a device's head_reduce: for each row the log-sum-exp, the target's
// logit and rank, and the first n tokens. Each is one array in device memory. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <span>

#include "execution/device_memory.hpp"
#include "execution/parts.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

// The arrays that head_reduce fills for the rows of one step. Invariant: all have room for the rows of the last
// begin(). Used only by the thread that runs steps.
class RowScores {
 public:
  explicit RowScores(const ShardParts& parts) : parts_(parts), memory_(parts.device), download_(parts.device) {}

  // Makes room for `num_rows` rows with `num_top` first tokens each. Previous results are lost.
  void begin(std::size_t num_rows, std::size_t num_top);

  // Returns the arguments for head_reduce with all arrays from row `first` on; `targets` is device memory. The caller
  // sets arrays that it does not want yet to null.
  mortise_head_reduce_args arrays(std::size_t first, const std::int32_t* targets) const;
  void reduce(const mortise_step& step, const mortise_tensor& logits, std::int32_t vocab_begin,
              mortise_head_reduce_args args) const;

  // Queues the copy of all arrays to the host.
  void start_download();
  // Writes the log probability and rank of the row's target, and the `num_top` first tokens. REQUIRES: the device was
  // synchronised after start_download().
  void describe(std::size_t row, std::size_t num_top, TokenInfo& info) const;

 private:
  // max, sum, target logit, rank and log-sum-exp [num_rows] each, then top ids and top logits [num_rows, num_top].
  static constexpr std::size_t kArrays = 5;

  const ShardParts& parts_;
  DeviceBuffer memory_;
  Download download_;
  std::size_t num_rows_ = 0, num_top_ = 0;
  float* base_ = nullptr;
};

}  // namespace mortise
