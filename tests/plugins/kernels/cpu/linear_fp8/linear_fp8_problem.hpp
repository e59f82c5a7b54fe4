// linear_fp8_problem.hpp: a product with E4M3 weights to compute, and what the reference gives for it.
#pragma once

#include <algorithm>
#include <utility>

#include "kernel_test.hpp"
#include "kernels/cpu/linear_fp8/linear_fp8.hpp"
#include "kernels/cpu/linear_int/pack.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"

namespace mortise::cpu {

struct Fp8Shape {
  std::size_t m, n, k;
  bool grouped;  // by kFp8GroupColumns; otherwise one scale a row
};
inline std::ostream& operator<<(std::ostream& out, const Fp8Shape& s) {
  return out << s.m << " x " << s.n << " x " << s.k << (s.grouped ? ", grouped" : ", by row");
}

// Values of all bits but NaN, and scales, drawn on their own, as a checkpoint may have them.
template <class X>
struct Fp8Problem {
  Fp8Problem(Fp8Shape s, Values activations, unsigned seed, bool with_bias = true) : shape(s) {
    std::mt19937 rng(seed);
    const std::size_t group = s.grouped ? std::min(kFp8GroupColumns, s.k) : s.k;
    w = {s.n, s.k, group, {}, {}};
    std::uniform_int_distribution<int> value(0, 0x7e), sign(0, 1);
    for (std::size_t i = 0; i < s.n * s.k; ++i) {
      w.values.push_back(static_cast<std::uint8_t>(value(rng) | sign(rng) << 7));
    }
    for (std::size_t i = 0; i < s.n * groups_of(s.k, group); ++i)
      w.scales.push_back(draw(rng, Values::kNormal) * 0.01f);
    x = random_values<X>(rng, s.m * s.k, activations);
    if (with_bias) bias = random_values<float>(rng, s.n);
  }
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }

  Fp8Shape shape;
  reference::Fp8Weight w;
  std::vector<X> x;
  std::vector<float> bias;
};

template <class X>
std::vector<float> expected(const Fp8Problem<X>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_fp8(p.x.data(), p.w, p.bias_or_null(), y.data(), p.shape.m);
  return y;
}

// A weight in the order that the kernels read.
struct PackedFp8Weight {
  explicit PackedFp8Weight(const reference::Fp8Weight& w)
      : values(packed_bytes_int(w.n, w.k, 8)),
        scales((w.n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * groups_of(w.k, w.group_size)) {
    const std::size_t groups = groups_of(w.k, w.group_size);
    for (std::size_t first = 0; first < w.n; first += kPanelColumns) {
      const std::uint8_t* rows[kPanelColumns] = {};
      for (std::size_t c = 0; c < kPanelColumns; ++c) {
        if (first + c < w.n) rows[c] = &w.values[(first + c) * w.k];
        for (std::size_t g = 0; g < groups; ++g) {
          scales.data()[(first / kPanelColumns * groups + g) * kPanelColumns + c] =
              first + c < w.n ? w.scales[(first + c) * groups + g] : 0.0f;
        }
      }
      pack_panel_int(rows, w.k, 8, values.data() + packed_bytes_int(first, w.k, 8));
    }
  }

  AlignedBuffer<std::uint8_t> values;
  AlignedBuffer<float> scales;
};

// Runs the product in one call, or split at the given row and column.
template <class Y, class X>
std::vector<Y> run(const LinearFp8Kernel& kernel, const Fp8Problem<X>& p, std::size_t split_m = 0,
                   std::size_t split_n = 0) {
  const auto [m, n, k, grouped] = p.shape;
  PackedFp8Weight packed(p.w);
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<char> scratch(kernel.scratch_bytes(m, k));
  LinearFp8Args args = {};
  args.x = x.data(), args.x_stride = x_stride, args.w = packed.values.data();
  args.scales = packed.scales.data(), args.group_size = p.w.group_size;
  args.bias = p.bias_or_null(), args.y = y.data(), args.y_stride = y_stride;
  args.m = m, args.n = n, args.k = k, args.scratch = scratch.data();
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

}  // namespace mortise::cpu
