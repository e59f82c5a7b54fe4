// runtime/execution/head_pass.hpp: computes logits from hidden rows. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>

#include "execution/device_memory.hpp"
#include "execution/parts.hpp"

namespace mortise {

// Invariant: selected() are the rows of the last select(). Used only by the thread that runs steps.
class HeadPass {
 public:
  explicit HeadPass(const ShardParts& parts);

  // Gathers the rows of `hidden` given by `row_indices` (device memory, [count]) for the following calls.
  void select(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* row_indices,
              std::int64_t count);
  // The same for `count` rows from `first` on. On a device that does not share the host's memory they are not copied:
  // selected() is then a part of `hidden`.
  void select_consecutive(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* row_indices,
                          std::int64_t first, std::int64_t count);
  const mortise_tensor& selected() const { return selected_; }  // in device memory
  // Computes f32 logits [count, end - begin] of the selected rows from `first` on, for the tokens begin .. end - 1.
  // They lie in device memory, with gaps between rows if stride[0] says so, and are valid until the next call.
  // REQUIRES: `begin` and `end` are multiples of 64, or the vocabulary's size.
  mortise_tensor logits(const mortise_step& step, std::int64_t first, std::int64_t count, std::int32_t begin,
                        std::int32_t end);
  // select() and logits() for the whole vocabulary. REQUIRES: 1 <= count <= max_logit_rows.
  mortise_tensor run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* row_indices,
                     std::int64_t count);

 private:
  mortise_tensor matrix_in(DeviceBuffer& memory, std::int32_t dtype, std::int64_t rows, std::int64_t columns) const;

  const ShardParts& parts_;
  const bool spread_;  // pads rows for a processor's caches
  DeviceBuffer selected_memory_, logits_;
  mortise_tensor selected_{};
};

}  // namespace mortise
