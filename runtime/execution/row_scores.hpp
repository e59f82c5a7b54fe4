// runtime/execution/row_scores.hpp: what a device's head_reduce finds out of rows: log-sum-exp, their targets' logits
// and ranks, the first n tokens. One array of each in device memory.
#pragma once

#include <cstdint>
#include <span>

#include "execution/device_memory.hpp"
#include "execution/parts.hpp"
#include "sampling/token_info.hpp"

namespace mortise {

class RowScores {
 public:
  explicit RowScores(const ShardParts& parts) : parts_(parts), memory_(parts.device), download_(parts.device) {}

  // For `num_rows` rows and their `num_top` first tokens. What was there is lost.
  void begin(std::size_t num_rows, std::size_t num_top);

  // All arrays from row `first` on, of rows with these targets (device memory). The caller takes away what it does not
  // want yet.
  mortise_head_reduce_args arrays(std::size_t first, const std::int32_t* targets) const;
  void reduce(const mortise_step& step, const mortise_tensor& logits, std::int32_t vocab_begin,
              mortise_head_reduce_args args) const;

  // Queues the copy of all arrays to the host.
  void start_download();
  // Once the device was synchronised: log probability and rank of its target, and `num_top` first tokens.
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
