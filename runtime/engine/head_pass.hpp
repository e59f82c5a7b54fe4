// runtime/engine/head_pass.hpp: hidden rows to logits.
#pragma once

#include <cstdint>

#include "engine/device_memory.hpp"
#include "engine/parts.hpp"

namespace mortise {

class HeadPass {
 public:
  HeadPass(const Parts& parts, std::int32_t vocab_size)
      : parts_(parts), vocab_size_(vocab_size), rows_(parts.device), logits_(parts.device) {}

  // The rows of `hidden` that `rows` (device memory, [count]) names, for the calls that follow.
  void select(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows, std::int64_t count);
  // f32 logits [count, end - begin] of the selected rows, of tokens begin .. end, which are multiples of 64 or the
  // vocabulary's size; in device memory, valid until the next call.
  mortise_tensor logits(const mortise_step& step, std::int32_t begin, std::int32_t end);
  // Both, with the whole vocabulary. REQUIRES: 1 <= count <= max_logit_rows.
  mortise_tensor run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows,
                     std::int64_t count);

 private:
  const Parts& parts_;
  const std::int32_t vocab_size_;
  DeviceBuffer rows_, logits_;
  mortise_tensor selected_{};
};

}  // namespace mortise
