// linear_problem.hpp: a product to compute, what the reference gives for it, and a run of a kernel on it.
#pragma once

#include <algorithm>
#include <utility>

#include "kernel_test.hpp"
#include "kernels/cpu/linear_pack.hpp"
#include "kernels/cpu/reference/linear.hpp"

namespace mortise::cpu {

struct Shape {
  std::size_t m, n, k;
};

template <class X>
struct Problem {
  Problem(Shape s, Values values, bool with_bias, unsigned seed) : shape(s) {
    std::mt19937 rng(seed);
    x = random_values<X>(rng, s.m * s.k, values);
    w = random_values<X>(rng, s.n * s.k, values);
    if (with_bias) bias = random_values<float>(rng, s.n, values);
  }
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }

  Shape shape;
  std::vector<X> x, w;
  std::vector<float> bias;
};

inline std::vector<float> expected(const Problem<Bf16>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_bf16(p.x.data(), p.w.data(), p.bias_or_null(), y.data(), p.shape.m, p.shape.n, p.shape.k);
  return y;
}
inline std::vector<float> expected(const Problem<float>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_f32(p.x.data(), p.w.data(), p.bias_or_null(), y.data(), p.shape.m, p.shape.n, p.shape.k);
  return y;
}

inline void pack(const Bf16* w, std::size_t stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed) {
  pack_bf16(w, stride, k, n0, n1, packed);
}
inline void pack(const float* w, std::size_t stride, std::size_t k, std::size_t n0, std::size_t n1, void* packed) {
  pack_f32(w, stride, k, n0, n1, packed);
}

// Runs the product in one call, or split at the given row and column.
template <class X, class Y>
std::vector<Y> run(const LinearKernel& kernel, const Problem<X>& p, std::size_t split_m = 0, std::size_t split_n = 0) {
  const auto [m, n, k] = p.shape;
  AlignedBuffer<unsigned char> packed(sizeof(X) == 2 ? packed_bytes_bf16(n, k) : packed_bytes_f32(n, k));
  pack(p.w.data(), k, k, 0, n, packed.data());
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<unsigned char> scratch(kernel.scratch_bytes(m, k));
  const LinearArgs args = {x.data(), x_stride, packed.data(), p.bias_or_null(), y.data(), y_stride, m,
                           n,        k,        scratch.data()};
  for (const auto& [m0, m1] : {std::pair(split_m, m), std::pair(std::size_t{0}, split_m)}) {
    kernel.prepare(args, m0, m1);
    kernel.run(args, {m0, m1, split_n, n});
    kernel.run(args, {m0, m1, 0, split_n});
  }
  std::vector<Y> dense;
  for (std::size_t i = 0; i < m; ++i) {
    dense.insert(dense.end(), &y[i * y_stride], &y[i * y_stride] + n);
    for (std::size_t j = n; j < y_stride; ++j) EXPECT_EQ(y[i * y_stride + j], untouched) << "wrote behind row " << i;
  }
  return dense;
}

inline std::vector<Bf16> rounded(const std::vector<float>& y) {
  std::vector<Bf16> r(y.size());
  std::transform(y.begin(), y.end(), r.begin(), float_to_bf16);
  return r;
}

}  // namespace mortise::cpu
