#include "execution/head_pass.hpp"

#include <cstddef>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

// Returns a row length for host memory that suits the CPU's caches: rows begin at a cache line, and their addresses do
// not all map to the same few cache sets. Otherwise a product that reads or writes 32 rows at a time would evict its
// own rows.
std::int64_t spread_columns(std::int64_t columns, std::int64_t element_bytes) {
  constexpr std::int64_t kCacheLine = 64;
  constexpr std::int64_t kConflictBytes = 1024;  // rows this far apart map to the same few cache sets
  std::int64_t bytes = (columns * element_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  if (bytes % kConflictBytes == 0) bytes += kCacheLine;
  return bytes / element_bytes;
}

mortise_tensor rows_from(const mortise_tensor& all, std::int64_t first, std::int64_t count) {
  const std::int64_t skipped = first * all.stride[0] * dtype_bytes(all.dtype);
  mortise_tensor rows = all;
  rows.data = static_cast<std::byte*>(rows.data) + skipped;
  rows.bytes -= static_cast<std::uint64_t>(skipped);
  rows.shape[0] = count;
  return rows;
}

}  // namespace

HeadPass::HeadPass(const ShardParts& parts)
    : parts_(parts), spread_(shares_host_memory(parts.device)), selected_memory_(parts.device), logits_(parts.device) {}

mortise_tensor HeadPass::matrix_in(DeviceBuffer& memory, std::int32_t dtype, std::int64_t rows,
                                   std::int64_t columns) const {
  const std::int64_t element_bytes = dtype_bytes(dtype);
  const std::int64_t stride = spread_ ? spread_columns(columns, element_bytes) : columns;
  const auto bytes = static_cast<std::uint64_t>(rows * stride * element_bytes);
  mortise_tensor tensor = matrix(memory.reserve(bytes), dtype, rows, columns);
  tensor.stride[0] = stride;
  tensor.bytes = bytes;
  return tensor;
}

void HeadPass::select(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* row_indices,
                      std::int64_t count) {
  selected_ = matrix_in(selected_memory_, hidden.dtype, count, hidden.shape[1]);
  parts_.device.call<&mortise_device_table::gather_rows>("gather_rows", step.stream, &hidden, row_indices, &selected_);
}

void HeadPass::select_consecutive(const mortise_step& step, const mortise_tensor& hidden,
                                  const std::int32_t* row_indices, std::int64_t first, std::int64_t count) {
  if (spread_) return select(step, hidden, row_indices, count);
  selected_ = rows_from(hidden, first, count);
}

mortise_tensor HeadPass::logits(const mortise_step& step, std::int64_t first, std::int64_t count, std::int32_t begin,
                                std::int32_t end) {
  const mortise_tensor slice = rows_from(selected_, first, count);
  const mortise_tensor logits = matrix_in(logits_, MORTISE_F32, count, end - begin);
  parts_.model.call<&mortise_model_table::head>("head", &step, &slice, begin, end, &logits);
  return logits;
}

mortise_tensor HeadPass::run(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* row_indices,
                             std::int64_t count) {
  select(step, hidden, row_indices, count);
  return logits(step, 0, count, 0, parts_.vocab_size);
}

}  // namespace mortise
