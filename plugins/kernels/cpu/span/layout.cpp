#include "kernels/cpu/span/span.hpp"

namespace mortise::cpu {
namespace {

constexpr std::int32_t round_up(std::int32_t n, std::int32_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

KvLayout make_kv_layout(std::int32_t element_bytes, std::int32_t num_layers, std::int32_t num_kv_heads,
                        std::int32_t head_dim, std::int32_t block_size) {
  KvLayout layout{};
  layout.element_bytes = element_bytes;
  layout.num_layers = num_layers;
  layout.num_kv_heads = num_kv_heads;
  layout.head_dim = head_dim;
  layout.block_size = block_size;
  // K is padded to whole depth tiles, so that AMX needs no second tile configuration for the last one.
  layout.key_depth = element_bytes < 4 ? round_up(head_dim, 32) : head_dim;
  layout.value_width = round_up(head_dim, 16);
  while ((kKeyGroup << layout.group_shift) < block_size) ++layout.group_shift;
  layout.value_offset = static_cast<std::size_t>(block_size) * static_cast<std::size_t>(layout.key_depth);
  layout.head_elements =
      static_cast<std::size_t>(block_size) * static_cast<std::size_t>(layout.key_depth + layout.value_width);
  if (element_bytes == 1) {
    const std::size_t scales = static_cast<std::size_t>(block_size) * sizeof(float);
    layout.key_scale_offset = layout.head_elements;
    layout.value_scale_offset = layout.key_scale_offset + scales;
    layout.head_elements = layout.value_scale_offset + scales;
  }
  layout.layer_elements = layout.head_elements * static_cast<std::size_t>(num_kv_heads);
  layout.block_elements = layout.layer_elements * static_cast<std::size_t>(num_layers);
  return layout;
}

float span_scale(float attention_scale) {
  constexpr double kLog2E = 1.4426950408889634074;
  return static_cast<float>(static_cast<double>(attention_scale) * kLog2E);
}

}  // namespace mortise::cpu
