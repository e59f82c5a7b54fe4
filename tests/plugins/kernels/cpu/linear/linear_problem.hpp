// linear_problem.hpp: a product to compute, what the reference gives for it, and a run of a kernel on it.
#pragma once

#include <algorithm>
#include <utility>

#include "kernel_test.hpp"
#include "kernels/cpu/linear/pack.hpp"
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

inline std::vector<float> expected(const Problem<Bf16>& p, SumOrder order = SumOrder::kTiles) {
  std::vector<float> y(p.shape.m * p.shape.n);
  const auto linear = order == SumOrder::kTiles ? reference::linear_bf16 : reference::linear_bf16_pairs;
  linear(p.x.data(), p.w.data(), p.bias_or_null(), y.data(), p.shape.m, p.shape.n, p.shape.k);
  return y;
}
inline std::vector<float> expected(const Problem<float>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_f32(p.x.data(), p.w.data(), p.bias_or_null(), y.data(), p.shape.m, p.shape.n, p.shape.k);
  return y;
}

inline void pack_panel(const Bf16* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel_bf16(rows, k, panel);
}
inline void pack_panel(const float* const (&rows)[kPanelColumns], std::size_t k, void* panel) {
  pack_panel_f32(rows, k, panel);
}

// w [n, k] packed.
template <class X>
AlignedBuffer<char> pack(const std::vector<X>& w, std::size_t n, std::size_t k) {
  const auto bytes = sizeof(X) == 2 ? packed_bytes_bf16 : packed_bytes_f32;
  AlignedBuffer<char> packed(bytes(n, k));
  for (std::size_t first = 0; first < n; first += kPanelColumns) {
    const X* rows[kPanelColumns] = {};
    for (std::size_t c = 0; c < kPanelColumns && first + c < n; ++c) rows[c] = &w[(first + c) * k];
    pack_panel(rows, k, packed.data() + bytes(first, k));
  }
  return packed;
}

// Runs the product in one call, or split at the given row and column.
template <class X, class Y>
std::vector<Y> run(const LinearKernel& kernel, const Problem<X>& p, std::size_t split_m = 0, std::size_t split_n = 0) {
  const auto [m, n, k] = p.shape;
  AlignedBuffer<char> packed = pack(p.w, n, k);
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<char> scratch(kernel.scratch_bytes(m, k));
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
