// linear_block32_problem.hpp: a product in blocks of 32 to compute, what the reference gives for it, and a run of
// kernels on it.
#pragma once

#include <algorithm>
#include <utility>

#include "kernel_test.hpp"
#include "kernels/cpu/linear_block32/pack.hpp"
#include "kernels/cpu/reference/linear_block32.hpp"

namespace mortise::cpu {

struct Block32Shape {
  std::size_t m, n, k;
  Block32Format format;
};
inline std::ostream& operator<<(std::ostream& out, const Block32Shape& s) {
  return out << s.m << " x " << s.n << " x " << s.k << ", " << s.format.bits << " bits in groups of "
             << s.format.group_size << ", zero " << s.format.zero << (s.format.has_minima ? ", minima" : "")
             << (s.format.half_scales ? ", f16" : ", f32");
}

enum class Block32Values { kRandom, kExtreme };

// Values, scales and minima drawn on their own, as a checkpoint may have them; extreme values reach the largest sums.
template <class X>
struct Block32Problem {
  Block32Problem(Block32Shape s, Values activations, unsigned seed, bool with_bias = true,
                 Block32Values values = Block32Values::kRandom)
      : shape(s) {
    std::mt19937 rng(seed);
    const int most = (1 << s.format.bits) - 1;
    std::uniform_int_distribution<int> value(0, most);
    w = {s.n, s.k, s.format.group_size, s.format.zero, {}, {}, {}};
    for (std::size_t i = 0; i < s.n * s.k; ++i) {
      const int v = value(rng);
      w.values.push_back(static_cast<std::uint8_t>(values == Block32Values::kExtreme ? most * (v & 1) : v));
    }
    // Sixteenths up to 2^7 are exact in f16, and so are small multiples of 2^-24, which are denormals.
    const auto factor = [&] {
      const int drawn = std::uniform_int_distribution<int>(-1023, 1023)(rng);
      if (!s.format.half_scales) return draw(rng, Values::kNormal) * 0.01f;
      return static_cast<float>(drawn) * (drawn % 5 == 0 ? 0x1p-24f : 0x1p-10f);
    };
    const std::size_t entries = s.n * groups_of(s.k, s.format.group_size);
    for (std::size_t i = 0; i < entries; ++i) {
      w.scales.push_back(factor());
      if (s.format.has_minima) w.minima.push_back(factor());
    }
    x = random_values<X>(rng, s.m * s.k, activations);
    if (with_bias) bias = random_values<float>(rng, s.n);
  }
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }

  Block32Shape shape;
  reference::Block32Weight w;
  std::vector<X> x;
  std::vector<float> bias;
};

template <class X>
std::vector<float> expected(const Block32Problem<X>& p) {
  std::vector<float> y(p.shape.m * p.shape.n);
  reference::linear_block32(p.x.data(), p.w, p.bias_or_null(), y.data(), p.shape.m);
  return y;
}

// A weight in the order that the kernels read.
struct PackedBlock32Weight {
  PackedBlock32Weight(const reference::Block32Weight& w, const Block32Format& format)
      : values(packed_bytes_int(w.n, w.k, format.bits)),
        scales(packed_factor_bytes(w.n, groups_of(w.k, w.group_size), format.half_scales)),
        minima(format.has_minima ? scales_bytes(w, format) : 1) {
    const std::size_t groups = groups_of(w.k, w.group_size);
    for (std::size_t first = 0; first < w.n; first += kPanelColumns) {
      const std::uint8_t* rows[kPanelColumns] = {};
      const float *scale_rows[kPanelColumns] = {}, *minimum_rows[kPanelColumns] = {};
      for (std::size_t c = 0; c < kPanelColumns && first + c < w.n; ++c) {
        rows[c] = &w.values[(first + c) * w.k];
        scale_rows[c] = &w.scales[(first + c) * groups];
        if (format.has_minima) minimum_rows[c] = &w.minima[(first + c) * groups];
      }
      pack_panel_int(rows, w.k, format.bits, values.data() + packed_bytes_int(first, w.k, format.bits));
      const std::size_t at = packed_factor_bytes(first, groups, format.half_scales);
      EXPECT_TRUE(pack_factors(scale_rows, groups, 1, format.half_scales, scales.data() + at));
      if (format.has_minima) {
        EXPECT_TRUE(pack_factors(minimum_rows, groups, 1, format.half_scales, minima.data() + at));
      }
    }
  }
  static std::size_t scales_bytes(const reference::Block32Weight& w, const Block32Format& format) {
    return packed_factor_bytes(w.n, groups_of(w.k, w.group_size), format.half_scales);
  }

  AlignedBuffer<std::uint8_t> values;
  AlignedBuffer<char> scales, minima;
};

// Runs the product in one call, or split at the given row and column.
template <class Y, class X>
std::vector<Y> run(const LinearBlock32Kernels& kernels, const Block32Problem<X>& p, std::size_t split_m = 0,
                   std::size_t split_n = 0) {
  const auto [m, n, k, format] = p.shape;
  PackedBlock32Weight packed(p.w, format);
  const std::size_t x_stride = k + 3, y_stride = n + 5;  // odd strides: neither kernel nor packing may assume alignment
  std::vector<X> x(m * x_stride, X{1});
  for (std::size_t i = 0; i < m; ++i) std::copy_n(&p.x[i * k], k, &x[i * x_stride]);
  const Y untouched = sizeof(Y) == 2 ? static_cast<Y>(12345) : static_cast<Y>(-7);
  std::vector<Y> y(m * y_stride, untouched);
  AlignedBuffer<char> scratch(kernels.scratch_bytes(m, k));
  LinearBlock32Args args = {};
  args.x = x.data(), args.x_stride = x_stride, args.format = format;
  args.values = packed.values.data(), args.scales = packed.scales.data();
  args.minima = format.has_minima ? packed.minima.data() : nullptr;
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
