// runtime/checkpoint/gguf/storage.hpp: how a tensor of a GGUF file lies in the file, where that differs from what
// models read under its Hugging Face name, and its conversion.
#pragma once

#include <cstdint>

#include "checkpoint/gguf/types.hpp"

namespace mortise {

struct GgufStorage {
  GgufType type = GgufType::kF32;
  // llama.cpp turns neighbouring elements of a head (2 i, 2 i + 1), transformers elements i and i + n / 2. So its
  // converter reorders the rows of q and k of the architecture `llama` within each of these heads. 0: rows are in
  // order.
  std::int64_t rope_heads = 0;
  // The tensor is stored with rows and columns exchanged: one row for each output, where GPT-2 has one column.
  bool transposed = false;

  // The row of the file that is row `row` of `rows`.
  std::int64_t stored_row(std::int64_t row, std::int64_t rows) const {
    if (rope_heads == 0) return row;
    const std::int64_t size = rows / rope_heads, head = row / size, at = row % size, half = size / 2;
    return head * size + at % half * 2 + at / half;
  }
};

}  // namespace mortise
