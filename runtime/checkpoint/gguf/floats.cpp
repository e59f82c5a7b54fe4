#include "checkpoint/gguf/floats.hpp"

#include <cassert>
#include <cstring>
#include <vector>

#include "checkpoint/half.hpp"

namespace mortise {
namespace {

constexpr std::int64_t kSpanElements = 4096;  // converted at once: stays in the first cache

// Converts whole blocks. REQUIRES: `out` has room.
void convert(GgufType type, std::span<const std::byte> blocks, Dtype to, std::byte* out) {
  const GgufTypeInfo& info = info_of(type);
  const std::size_t step = kSpanElements / info.block_elements * info.block_bytes;
  float floats[kSpanElements];
  for (std::size_t at = 0; at < blocks.size(); at += step) {
    const auto part = blocks.subspan(at, std::min(step, blocks.size() - at));
    const std::size_t count = part.size() / info.block_bytes * info.block_elements;
    read_gguf_floats(type, part, floats);
    if (to == Dtype::kF32) {
      std::memcpy(out, floats, count * sizeof(float));
      out += count * sizeof(float);
      continue;
    }
    std::uint16_t halves[kSpanElements];
    for (std::size_t i = 0; i < count; ++i) halves[i] = float_to_bf16(floats[i]);
    std::memcpy(out, halves, count * sizeof(std::uint16_t));
    out += count * sizeof(std::uint16_t);
  }
}

}  // namespace

GgufFloats gguf_floats(const TensorView& view, Dtype type) {
  const GgufStorage& storage = *view.gguf;
  GgufFloats out{nullptr, view, storage.transposed};
  const bool is_float = view.dtype != Dtype::kOther;
  if (is_float && storage.rope_heads == 0) return out;
  if (!is_float) out.view.dtype = type;
  out.view.dtype_name = type == Dtype::kF32 ? "F32" : "BF16";
  // A vector counts as a matrix of one column.
  const std::int64_t rows = storage.transposed ? view.shape[1] : view.shape.front();
  const std::size_t row_bytes = view.bytes.size() / static_cast<std::size_t>(rows);
  const GgufTypeInfo& info = info_of(storage.type);
  const std::size_t elements = view.bytes.size() / info.block_bytes * info.block_elements;
  const std::size_t bytes = elements * dtype_size(out.view.dtype), out_row = bytes / static_cast<std::size_t>(rows);
  out.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  out.view.bytes = {out.memory.get(), bytes};
  if (storage.rope_heads == 0) {
    convert(storage.type, view.bytes, type, out.memory.get());
    return out;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto from =
        view.bytes.subspan(static_cast<std::size_t>(storage.stored_row(row, rows)) * row_bytes, row_bytes);
    std::byte* const to = out.memory.get() + static_cast<std::size_t>(row) * out_row;
    if (is_float) {
      std::memcpy(to, from.data(), row_bytes);
    } else {
      convert(storage.type, from, type, to);
    }
  }
  return out;
}

}  // namespace mortise
