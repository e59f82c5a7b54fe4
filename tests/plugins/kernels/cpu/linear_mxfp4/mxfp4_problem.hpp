// mxfp4_problem.hpp: a product with MXFP4 weights to compute, and what the reference gives for it: the product of the
// widened weights.
#pragma once

#include <algorithm>

#include "kernel_test.hpp"
#include "kernels/cpu/linear_mxfp4/linear_mxfp4.hpp"
#include "kernels/cpu/reference/linear.hpp"
#include "kernels/cpu/reference/linear_mxfp4.hpp"

namespace mortise::cpu {

struct Mxfp4Shape {
  std::size_t m, n, k;
};
inline std::ostream& operator<<(std::ostream& out, const Mxfp4Shape& s) {
  return out << s.m << " x " << s.n << " x " << s.k;
}

// Exponents of weights near 1, or all that there are.
enum class Exponents { kUsual, kAll };

// All sixteen values, and exponents, drawn on their own, as a checkpoint may have them.
template <class X>
struct Mxfp4Problem {
  Mxfp4Problem(Mxfp4Shape s, Values activations, unsigned seed, bool with_bias = true,
               Exponents exponents = Exponents::kUsual)
      : shape(s) {
    std::mt19937 rng(seed);
    w = {s.n, s.k, {}, {}};
    for (std::size_t i = 0; i < s.n * s.k; ++i) w.values.push_back(static_cast<std::uint8_t>(rng() % 16));
    const std::size_t groups = (s.k + kMxfp4GroupColumns - 1) / kMxfp4GroupColumns;
    for (std::size_t i = 0; i < s.n * groups; ++i) {
      w.exponents.push_back(static_cast<std::uint8_t>(exponents == Exponents::kAll ? rng() % 253 : 118 + rng() % 6));
    }
    x = random_values<X>(rng, s.m * s.k, activations);
    if (with_bias) bias = random_values<float>(rng, s.n);
  }
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }

  Mxfp4Shape shape;
  reference::Mxfp4Weight w;
  std::vector<X> x;
  std::vector<float> bias;
};

}  // namespace mortise::cpu
