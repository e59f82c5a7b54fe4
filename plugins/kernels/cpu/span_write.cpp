// Writes K and V into the layout of span.hpp.
#include "kernels/cpu/span.hpp"
#include "kernels/cpu/vec.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

constexpr std::size_t index(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

// A slot of the cache, one kv head.
template <class T>
struct Slot {
  T *keys, *values;  // the slot's first element of K; of V's group: bf16 the pair's row, f32 the token's
  bool odd;
};

template <class T>
Slot<T> slot_of(const KvWrite& write, std::int64_t slot, std::size_t head) {
  const KvLayout& layout = *write.layout;
  const std::size_t block = static_cast<std::size_t>(slot) / index(layout.block_size);
  const std::size_t offset = static_cast<std::size_t>(slot) % index(layout.block_size);
  T* base = static_cast<T*>(write.kv) + block * layout.block_elements + head * layout.head_elements;
  const std::size_t pair = sizeof(T) == 2 ? 2 : 1;
  return {base + offset / kKeyGroup * kKeyGroup * index(layout.key_depth) + offset % kKeyGroup * pair,
          base + layout.value_offset + offset / pair * pair * index(layout.value_width), offset % 2 != 0};
}

void write_key(const Bf16* k, std::size_t head_dim, Bf16* keys) {
  for (std::size_t d = 0; d < head_dim; d += 2) std::memcpy(keys + d * kKeyGroup, k + d, 2 * sizeof(Bf16));
}
void write_key(const float* k, std::size_t head_dim, float* keys) {
  for (std::size_t d = 0; d < head_dim; ++d) keys[d * kKeyGroup] = k[d];
}

void write_value(const Bf16* v, std::size_t head_dim, const Slot<Bf16>& slot) {
  Bf16* to = slot.values + (slot.odd ? 1 : 0);
  for (std::size_t d = 0; d < head_dim; ++d) to[2 * d] = v[d];
}
void write_value(const float* v, std::size_t head_dim, const Slot<float>& slot) {
  std::memcpy(slot.values, v, head_dim * sizeof(float));
}

// Both tokens of a pair at once: whole words instead of half ones.
void write_value_pair(const Bf16* even, const Bf16* odd, std::size_t head_dim, Bf16* values) {
  for (std::size_t d = 0; d < head_dim; d += kLanes) {
    const std::size_t n = lanes_left(head_dim - d);
    const I32x16 low = shift_right<16>(bits(load_bf16_tail(even + d, n)));
    const I32x16 both = low | bits(load_bf16_tail(odd + d, n));
    alignas(64) std::int32_t words[kLanes];
    store(words, both);
    std::memcpy(values + 2 * d, words, n * sizeof *words);
  }
}

template <class T>
void write_rows(const KvWrite& write) {
  const std::size_t head_dim = index(write.layout->head_dim);
  for (std::int32_t h = 0; h < write.layout->num_kv_heads; ++h) {
    const T* k = static_cast<const T*>(write.k) + h * write.k_head_stride;
    const T* v = static_cast<const T*>(write.v) + h * write.v_head_stride;
    for (std::int32_t r = 0; r < write.num_rows; ++r) {
      const Slot<T> slot = slot_of<T>(write, write.slots[r], index(h));
      write_key(k + r * write.k_row_stride, head_dim, slot.keys);
      const T* value = v + r * write.v_row_stride;
      if constexpr (sizeof(T) == 2) {
        const bool pair = !slot.odd && r + 1 < write.num_rows && write.slots[r + 1] == write.slots[r] + 1;
        if (pair) {
          write_value_pair(value, value + write.v_row_stride, head_dim, slot.values);
          ++r;
          write_key(k + r * write.k_row_stride, head_dim, slot.keys + 2);  // the neighbour on the right
          continue;
        }
      }
      write_value(value, head_dim, slot);
    }
  }
}

}  // namespace

extern const KvWriteKernels kKvWriteKernels;
constinit const KvWriteKernels kKvWriteKernels = {
    .bf16 = write_rows<Bf16>,
    .f32 = write_rows<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
