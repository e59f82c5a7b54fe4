#include "kernels/cpu/reference/linear.hpp"

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

// The fma chain over k = first, first + 2, .. of a depth tile of 32. An element beyond K counts as 0 * 0.
template <class T>
float chain(const T* x, const T* w, std::size_t first, std::size_t depth) {
  float sum = 0;
  for (std::size_t k = first; k < 32; k += 2)
    sum = k < depth ? soft_fma(get(x[k]), get(w[k]), sum) : soft_fma(0, 0, sum);
  return sum;
}

template <class T>
void linear(const T* x, const T* w, const float* bias, float* y, std::size_t m, std::size_t n, std::size_t k) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float acc = 0;
      for (std::size_t tile = 0; tile < k; tile += 32) {
        const T* x_tile = x + i * k + tile;
        const T* w_tile = w + j * k + tile;
        acc = acc + (chain(x_tile, w_tile, 0, k - tile) + chain(x_tile, w_tile, 1, k - tile));
      }
      y[i * n + j] = canonical_nan(bias != nullptr ? acc + bias[j] : acc);
    }
  }
}

}  // namespace

void linear_bf16(const Bf16* x, const Bf16* w, const float* bias, float* y, std::size_t m, std::size_t n,
                 std::size_t k) {
  linear(x, w, bias, y, m, n, k);
}
void linear_f32(const float* x, const float* w, const float* bias, float* y, std::size_t m, std::size_t n,
                std::size_t k) {
  linear(x, w, bias, y, m, n, k);
}

}  // namespace mortise::cpu::reference
