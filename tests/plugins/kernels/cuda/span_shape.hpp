// tests/plugins/kernels/cuda/span_shape.hpp: the shapes that tests of span attention go through, and their names.
#pragma once

#include <cstdint>
#include <ostream>

#include "kernels/cuda/span.hpp"

namespace mortise::test {

struct Shape {
  std::int32_t num_heads, num_kv_heads, head_dim, block_size, window;
  cuda::SpanCache cache = cuda::SpanCache::kBf16;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.num_heads << " heads, " << shape.num_kv_heads << " kv heads of " << shape.head_dim
             << ", blocks of " << shape.block_size << ", window " << shape.window
             << (shape.cache == cuda::SpanCache::kInt8  ? ", int8"
                 : shape.cache == cuda::SpanCache::kFp8 ? ", fp8"
                                                        : "");
}

}  // namespace mortise::test
