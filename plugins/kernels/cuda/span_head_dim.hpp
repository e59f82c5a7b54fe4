// plugins/kernels/cuda/span_head_dim.hpp: turns a head size that is known at run time into a constant of the kernel.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/span.hpp"

namespace mortise::cuda {

// Calls f(std::integral_constant<int, head_dim>). REQUIRES: is_span_head_dim(head_dim).
template <typename F>
auto with_head_dim(std::int32_t head_dim, const F& f) {
  switch (head_dim) {
    case 32:
      return f(std::integral_constant<int, 32>{});
    case 64:
      return f(std::integral_constant<int, 64>{});
    case 80:
      return f(std::integral_constant<int, 80>{});
    case 96:
      return f(std::integral_constant<int, 96>{});
    case 192:
      return f(std::integral_constant<int, 192>{});
    case 256:
      return f(std::integral_constant<int, 256>{});
    default:
      return f(std::integral_constant<int, 128>{});
  }
}

// Calls f(std::integral_constant<int, head_dim>, std::integral_constant<SpanCache, cache>).
template <typename F>
auto with_head_dim(std::int32_t head_dim, SpanCache cache, const F& f) {
  return with_head_dim(head_dim, [&](auto d) {
    return cache == SpanCache::kInt8  ? f(d, std::integral_constant<SpanCache, SpanCache::kInt8>{})
           : cache == SpanCache::kFp8 ? f(d, std::integral_constant<SpanCache, SpanCache::kFp8>{})
                                      : f(d, std::integral_constant<SpanCache, SpanCache::kBf16>{});
  });
}

}  // namespace mortise::cuda
