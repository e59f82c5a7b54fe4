// runtime/execution/attention_pair.hpp: two attentions behind one table. A model that runs with a pair gets the outputs
// of the serving attention; the candidate is given the same q, k and v, with KV memory of its own, and its outputs are
// compared with the serving ones bit by bit. What the candidate does wrong reaches no model.
//
// All calls come from the thread that runs steps.
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

class AttentionPair {
 public:
  // Both are active, on one device, bound to KV memory of the same number and size of blocks.
  AttentionPair(const ShardParts& serving, AttentionPart candidate);
  AttentionPair(const AttentionPair&) = delete;
  AttentionPair& operator=(const AttentionPair&) = delete;

  // Has the candidate plan the step, which the serving attention has planned, and puts the pair in the place of that.
  // The model's forward may then run with `step`; it is not to be captured.
  void begin(mortise_step& step);
  void copy_blocks(std::span<const BlockId> from, std::span<const BlockId> to);

  // The first one; from then on the candidate is not called any more.
  const std::optional<Difference>& difference() const { return difference_; }
  std::uint64_t num_rows() const { return num_rows_; }  // compared, of all layers

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
  std::int32_t appended_layer_ = -1;  // whose rotated q is in q_
  mortise_tensor q_{};
  std::optional<Difference> difference_;
  std::uint64_t num_rows_ = 0;
};

}  // namespace mortise
