// linear_int_problem.hpp: a quantised product to compute, what the reference gives for it, and a run of kernels on it.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernel_test.hpp"
#include "kernels/cpu/linear_int/pack.hpp"
#include "kernels/cpu/reference/linear_int.hpp"

namespace mortise::cpu {

struct IntShape {
  std::size_t m, n, k;
  int bits;
  std::size_t group_size;
};
inline std::ostream& operator<<(std::ostream& out, const IntShape& s) {
  return out << s.m << " x " << s.n << " x " << s.k << ", " << s.bits << " bits in groups of " << s.group_size;
}

enum class Weights { kRandom, kExtreme };

// Values, scales and zero points drawn on their own, as a checkpoint may have them; extreme ones reach the largest
// sums.
template <class X>
struct IntProblem {
  IntProblem(IntShape s, Values activations, unsigned seed, bool with_bias = true, bool with_order = false,
             Weights weights = Weights::kRandom)
      : shape(s) {
    std::mt19937 rng(seed);
    const int most = (1 << s.bits) - 1;
    std::uniform_int_distribution<int> value(0, most);
    const auto draw_value = [&] { return weights == Weights::kExtreme ? most * (value(rng) & 1) : value(rng); };
    w = {s.n, s.k, s.group_size, {}, {}, {}, {}};
    const std::size_t groups = groups_of(s.k, s.group_size);
    for (std::size_t i = 0; i < s.n * s.k; ++i) w.values.push_back(static_cast<std::uint8_t>(draw_value()));
    for (std::size_t i = 0; i < s.n * groups; ++i) {
      w.zeros.push_back(static_cast<std::uint8_t>(draw_value()));
      w.scales.push_back(draw(rng, Values::kNormal) * 0.01f);
    }
    if (with_order) {
      w.order.resize(s.k);
      std::iota(w.order.begin(), w.order.end(), 0);
      std::shuffle(w.order.begin(), w.order.end(), rng);
    }
    x = random_values<X>(rng, s.m * s.k, activations);
    if (with_bias) bias = random_values<float>(rng, s.n);
  }
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }

  IntShape shape;
  reference::IntWeight w;
  std::vector<X> x;
  std::vector<float> bias;
};

template <class X>
std::vector<float> expected(const IntProblem<X>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_int(p.x.data(), p.w, p.bias_or_null(), y.data(), p.shape.m);
  return y;
}

// A weight in the order that the kernels read.
struct PackedIntWeight {
  explicit PackedIntWeight(const reference::IntWeight& w, int bits)
      : values(packed_bytes_int(w.n, w.k, bits)),
        scales(padded(w.n) * groups_of(w.k, w.group_size)),
        zeros(padded(w.n) * groups_of(w.k, w.group_size)) {
    const std::size_t groups = groups_of(w.k, w.group_size);
    for (std::size_t first = 0; first < w.n; first += kPanelColumns) {
      const std::uint8_t* rows[kPanelColumns] = {};
      for (std::size_t c = 0; c < kPanelColumns; ++c) {
        if (first + c < w.n) rows[c] = &w.values[(first + c) * w.k];
        for (std::size_t g = 0; g < groups; ++g) {
          const bool there = first + c < w.n;
          const std::size_t at = (first / kPanelColumns * groups + g) * kPanelColumns + c;
          scales.data()[at] = there ? w.scales[(first + c) * groups + g] : 0.0f;
          zeros.data()[at] = there ? w.zeros[(first + c) * groups + g] : std::uint8_t{0};
        }
      }
      pack_panel_int(rows, w.k, bits, values.data() + packed_bytes_int(first, w.k, bits));
    }
  }
  static std::size_t padded(std::size_t n) { return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns; }

  AlignedBuffer<std::uint8_t> values;
  AlignedBuffer<float> scales;
  AlignedBuffer<std::uint8_t> zeros;
};

// Runs the product in one call, or split at the given row and column.
template <class Y, class X>
std::vector<Y> run(const LinearIntKernels& kernels, const IntProblem<X>& p, std::size_t split_m = 0,
                   std::size_t split_n = 0) {
  const auto [m, n, k, bits, group_size] = p.shape;
  PackedIntWeight packed(p.w, bits);
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<char> scratch(kernels.scratch_bytes(m, k, group_size));
  LinearIntArgs args = {};
  args.x = x.data(), args.x_stride = x_stride, args.order = p.w.order.empty() ? nullptr : p.w.order.data();
  args.format = {bits, group_size};
  args.values = packed.values.data(), args.scales = packed.scales.data(), args.zeros = packed.zeros.data();
  args.bias = p.bias_or_null(), args.y = y.data(), args.y_stride = y_stride;
  args.m = m, args.n = n, args.k = k, args.scratch = scratch.data();
  const auto prepare = sizeof(X) == 2 ? kernels.prepare_bf16 : kernels.prepare_f32;
  const auto multiply = sizeof(Y) == 2 ? kernels.to_bf16 : kernels.to_f32;
  for (const auto& [m0, m1] : {std::pair(split_m, m), std::pair(std::size_t{0}, split_m)}) {
    prepare(args, m0, m1);
    multiply(args, {m0, m1, split_n, n});
    multiply(args, {m0, m1, 0, split_n});
  }
  std::vector<Y> dense;
  for (std::size_t i = 0; i < m; ++i) {
    dense.insert(dense.end(), &y[i * y_stride], &y[i * y_stride] + n);
    for (std::size_t j = n; j < y_stride; ++j) EXPECT_EQ(y[i * y_stride + j], untouched) << "wrote behind row " << i;
  }
  return dense;
}

}  // namespace mortise::cpu
