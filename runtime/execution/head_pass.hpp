// runtime/execution/head_pass.hpp: hidden rows to logits.
#pragma once

#include <cstdint>

#include "execution/device_memory.hpp"
#include "execution/parts.hpp"

namespace mortise {

class HeadPass {
 public:
  explicit HeadPass(const ShardParts& parts);

  // The rows of `hidden` that `rows` (device memory, [count]) names, for the calls that follow.
  void select(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows, std::int64_t count);
  const mortise_tensor& selected() const { return selected_; }  // in device memory
  // f32 logits [count, end - begin] of the selected rows from `first` on, of tokens begin .. end, which are multiples
  // of 64 or the vocabulary's size; in device memory, rows perhaps further apart than they are long, valid until the
  // next call.
  mortise_tensor logits(const mortise_step& step, std::int64_t first, std::int64_t count, std::int32_t begin,
                        std::int32_t end);
  // Both, with the whole vocabulary. REQUIRES: 1 <= count <= max_logit_rows.
  mortise_tensor run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows,
                     std::int64_t count);

 private:
  mortise_tensor matrix_in(DeviceBuffer& memory, std::int32_t dtype, std::int64_t rows, std::int64_t columns) const;

  const ShardParts& parts_;
  const bool spread_;  // rows for a processor's caches
  DeviceBuffer rows_, logits_;
  mortise_tensor selected_{};
};

}  // namespace mortise
