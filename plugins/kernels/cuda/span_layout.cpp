#include <cmath>

#include "kernels/cuda/span.hpp"

namespace mortise::cuda {

SpanLayout make_span_layout(std::int32_t num_layers, std::int32_t num_kv_heads, std::int32_t head_dim,
                            std::int32_t block_size, SpanCache cache) {
  SpanLayout layout{};
  layout.num_layers = num_layers;
  layout.num_kv_heads = num_kv_heads;
  layout.head_dim = head_dim;
  layout.block_size = block_size;
  layout.cache = cache;
  while (1 << layout.block_shift < block_size) ++layout.block_shift;
  const auto chunk = static_cast<std::size_t>(in_bytes(cache) ? 8 * head_dim + 32 : kKeyChunk * head_dim);
  layout.head_elements = 2 * chunk * static_cast<std::size_t>(block_size / kKeyChunk);
  layout.layer_elements = layout.head_elements * static_cast<std::size_t>(num_kv_heads);
  layout.block_elements = layout.layer_elements * static_cast<std::size_t>(num_layers);
  return layout;
}

float span_scale(float attention_scale) {
  return static_cast<float>(static_cast<double>(attention_scale) * 1.4426950408889634);  // log2(e)
}

}  // namespace mortise::cuda
