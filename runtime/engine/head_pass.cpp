#include "engine/head_pass.hpp"

namespace mortise {

void HeadPass::select(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows,
                      std::int64_t count) {
  const std::int64_t width = hidden.shape[1];
  const auto bytes = static_cast<std::uint64_t>(count * width) * static_cast<std::uint64_t>((hidden.dtype & 0xff) / 8);
  selected_ = matrix(rows_.reserve(bytes), hidden.dtype, count, width);
  mortise_error error = empty_error();
  check_part(parts_.device.api->gather_rows(parts_.device.self, step.stream, &hidden, rows, &selected_, &error), error,
             parts_.device.name);
}

mortise_tensor HeadPass::logits(const mortise_step& step, std::int32_t begin, std::int32_t end) {
  const std::int64_t count = selected_.shape[0], width = end - begin;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count * width) * sizeof(float);
  const mortise_tensor logits = matrix(logits_.reserve(bytes), MORTISE_F32, count, width);
  mortise_error error = empty_error();
  check_part(parts_.model.api->head(parts_.model.self, &step, &selected_, begin, end, &logits, &error), error,
             parts_.model.name);
  return logits;
}

mortise_tensor HeadPass::run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* rows,
                             std::int64_t count) {
  select(step, hidden, rows, count);
  return logits(step, 0, vocab_size_);
}

}  // namespace mortise
