#include "engine/head_pass.hpp"

namespace mortise {

mortise_tensor HeadPass::run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows,
                             std::int64_t count) {
  const std::int64_t width = hidden.shape[1];
  const auto bytes = static_cast<std::uint64_t>(count * width) * static_cast<std::uint64_t>((hidden.dtype & 0xff) / 8);
  const mortise_tensor gathered = matrix(rows_.reserve(bytes), hidden.dtype, count, width);
  mortise_error error = empty_error();
  check_part(parts_.device.api->gather_rows(parts_.device.self, step.stream, &hidden, rows, &gathered, &error), error,
             parts_.device.name);
  const mortise_tensor logits = matrix(logits_.reserve(static_cast<std::uint64_t>(count * vocab_size_) * sizeof(float)),
                                       MORTISE_F32, count, vocab_size_);
  check_part(parts_.model.api->head(parts_.model.self, &step, &gathered, 0, vocab_size_, &logits, &error), error,
             parts_.model.name);
  return logits;
}

}  // namespace mortise
