#include "kernels/cpu/rows/rope.hpp"

#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

struct Pair {
  F32x16 x0, x1;
};

MORTISE_INLINE Pair rotate_pair(Pair p, F32x16 c, F32x16 s) {
  return {p.x0 * c - p.x1 * s, p.x1 * c + p.x0 * s};
}

template <class T>
void rotate(T* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos, const float* sin,
            std::size_t rotary_dim) {
  const std::size_t half = rotary_dim / 2;
  for (std::size_t h = 0; h < num_heads; ++h, x += head_stride) {
    T* y = x + half;
    std::size_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const Pair r = rotate_pair({read(x + i), read(y + i)}, load(cos + i), load(sin + i));
      write(x + i, r.x0);
      write(y + i, r.x1);
    }
    if (i < half) {
      const std::size_t n = half - i;
      const Pair p = {read_tail(x + i, n), read_tail(y + i, n)};
      const Pair r = rotate_pair(p, load_tail(cos + i, n), load_tail(sin + i, n));
      write_tail(x + i, r.x0, n);
      write_tail(y + i, r.x1, n);
    }
  }
}

template <class T>
void rotate_interleaved(T* x, std::size_t num_heads, std::ptrdiff_t head_stride, const float* cos, const float* sin,
                        std::size_t rotary_dim) {
  const std::size_t half = rotary_dim / 2;
  alignas(64) T even[kLanes] = {}, odd[kLanes] = {};
  for (std::size_t h = 0; h < num_heads; ++h, x += head_stride) {
    for (std::size_t i = 0; i < half; i += kLanes) {
      const std::size_t n = lanes_left(half - i);
      for (std::size_t j = 0; j < n; ++j) {
        even[j] = x[2 * (i + j)];
        odd[j] = x[2 * (i + j) + 1];
      }
      const Pair r = rotate_pair({read(even), read(odd)}, load_tail(cos + i, n), load_tail(sin + i, n));
      write(even, r.x0);
      write(odd, r.x1);
      for (std::size_t j = 0; j < n; ++j) {
        x[2 * (i + j)] = even[j];
        x[2 * (i + j) + 1] = odd[j];
      }
    }
  }
}

}  // namespace

extern const RopeKernels kRopeKernels;
constinit const RopeKernels kRopeKernels = {
    .rotate_bf16 = rotate<Bf16>,
    .rotate_f32 = rotate<float>,
    .rotate_interleaved_bf16 = rotate_interleaved<Bf16>,
    .rotate_interleaved_f32 = rotate_interleaved<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
