// runtime/checkpoint/gguf/floats.hpp: a tensor of a GGUF file as models read it: rows in order, floats.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "checkpoint/safetensors.hpp"

namespace mortise {

// The numbers of a tensor, and the memory that holds them: its own, or none if the file has them in this form.
struct GgufFloats {
  std::unique_ptr<std::byte[]> memory;
  TensorView view;
  bool transposed = false;  // the bytes are [shape[1], shape[0]], row-major
};

// Floats stay as they are; other types become `type`, kBf16 (rounded to the nearest) or kF32 (exact).
// REQUIRES: view.gguf. Throws std::bad_alloc if there is no memory. Thread-safe.
GgufFloats gguf_floats(const TensorView& view, Dtype type);

}  // namespace mortise
