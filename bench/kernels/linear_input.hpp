// linear_input.hpp: inputs of both linear benchmarks, their division among threads, and the bf16 product that
// linear_int_bench compares with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear/pack.hpp"
#include "limits.hpp"

namespace mortise::bench {

struct Shape {
  std::size_t n, k;
};

constexpr std::size_t kCacheLine = 64;

// `count` elements that begin at a cache line, in `memory`.
template <class T>
T* aligned(std::vector<char>& memory, std::size_t count) {
  memory.resize(count * sizeof(T) + kCacheLine);
  return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(memory.data()) + kCacheLine - 1) / kCacheLine *
                              kCacheLine);
}

inline void fill(cpu::Bf16* p, std::size_t n) {
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    p[i] = static_cast<cpu::Bf16>(0x3f80u ^ (state >> 16 & 0x807fu));  // +-[1, 2)
  }
}

// How many copies of weights of `bytes` bytes a product walks through, as a model does through its layers, so that they
// exceed the caches together. Very many rows use each weight often: where the weights come from does not matter there.
inline std::size_t copies_of(std::size_t bytes, std::size_t num_rows) {
  constexpr std::size_t kWeightBytes = std::size_t{192} << 20;
  return num_rows <= 512 ? std::max<std::size_t>(2, kWeightBytes / bytes) : 2;
}

// Whole panels of 16 columns.
inline std::size_t columns_per_thread(std::size_t n, std::size_t threads) {
  return (n / 16 + threads - 1) / threads * 16;
}

struct Input {
  Input(Shape s, std::size_t m) {
    x = aligned<cpu::Bf16>(x_memory, m * s.k);
    y = aligned<float>(y_memory, m * s.n);
    fill(x, m * s.k);
  }
  cpu::Bf16* x;
  float* y;  // of which a product to bf16 uses half
  std::vector<char> x_memory, y_memory;
};

// Scratch of a kernel, for each thread its own: each prepares x for itself, which for few rows is cheaper than waiting
// for another.
struct Scratch {
  Scratch(std::size_t bytes, std::size_t threads)
      : bytes_each((bytes + kCacheLine - 1) / kCacheLine * kCacheLine),
        first(aligned<char>(memory, bytes_each * threads)) {}
  void* of(std::size_t thread) const { return first + thread * bytes_each; }

  std::vector<char> memory;
  std::size_t bytes_each;
  char* first;
};

// Seconds per product; it is repeated for `seconds`.
inline double measure_bf16(const cpu::LinearKernel& kernel, Shape s, std::size_t m, std::size_t threads,
                           double seconds) {
  const Input in(s, m);
  const std::size_t bytes = cpu::packed_bytes_bf16(s.n, s.k), copies = copies_of(bytes, m);
  std::vector<char> weight_memory;
  auto* weights = aligned<cpu::Bf16>(weight_memory, copies * bytes / 2);
  fill(weights, copies * bytes / 2);
  const Scratch scratch(kernel.scratch_bytes(m, s.k), threads);
  const std::size_t each = columns_per_thread(s.n, threads);
  return fastest_round(threads, seconds, [&](std::size_t t, std::size_t round) {
    cpu::LinearArgs args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.scratch = scratch.of(t);
    args.w = weights + round % copies * bytes / 2;
    kernel.prepare(args, 0, m);
    kernel.run(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

}  // namespace mortise::bench
