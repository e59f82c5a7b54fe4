// runtime/execution/attention_pair.hpp: two attentions behind one table, for a verified swap. The model gets the
// outputs of the serving attention. The candidate gets the same q, k and v and has its own KV memory; its outputs are
// compared with the serving outputs bit by bit. An error of the candidate never reaches the model.
//
// Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "execution/device_memory.hpp"
#include "execution/difference.hpp"
#include "execution/parts.hpp"
#include "kv/block_pool.hpp"

namespace mortise {

// Invariant: the serving attention runs first and its results are what the model sees; the candidate runs on copies
// until the first difference. Used only by the thread that runs steps.
class AttentionPair {
 public:
  // Both attentions are active, on one device, and bound to KV memory with the same number and size of blocks.
  AttentionPair(const ShardParts& serving, AttentionPart candidate);
  AttentionPair(const AttentionPair&) = delete;
  AttentionPair& operator=(const AttentionPair&) = delete;

  // Lets the candidate plan the step and makes the pair the attention of `step`. The model's forward may then run with
  // `step`, but must not be captured. REQUIRES: the serving attention has planned the step.
  void begin(mortise_step& step);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // The first difference. The candidate is not called after it.
  const std::optional<Difference>& difference() const { return difference_; }
  std::uint64_t num_rows() const { return num_rows_; }  // rows compared, summed over all layers

 private:
  static const mortise_attention_table& table();
  mortise_status append(const mortise_append_args& args, mortise_error* error);
  mortise_status run(std::int32_t layer, const mortise_tensor& q, const mortise_tensor& out, mortise_error* error);
  void run_candidate(std::int32_t layer, const mortise_tensor& q, const mortise_tensor& out);
  mortise_tensor copy_of(const mortise_tensor& tensor, DeviceBuffer& memory);
  template <typename Work>
  void beside(const char* function, std::int32_t layer, const Work& work);
  void failed(const char* function, const char* why, std::int32_t layer);

  const DevicePart device_;
  const AttentionPart serving_, candidate_;
  DeviceBuffer q_memory_, k_memory_, out_memory_;
  Download serving_rows_, candidate_rows_;
  // Of the running step.
  mortise_step serving_step_{}, candidate_step_{};
  std::int32_t appended_layer_ = -1;  // the layer whose rotated q is in q_
  mortise_tensor q_{};
  std::optional<Difference> difference_;
  std::uint64_t num_rows_ = 0;
};

}  // namespace mortise
