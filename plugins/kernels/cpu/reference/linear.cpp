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

// A depth tile in pairs, from acc on.
float pairs(const Bf16* x, const Bf16* w, std::size_t depth, float acc) {
  const auto add = [&](std::size_t k) { acc = k < depth ? soft_fma(get(x[k]), get(w[k]), acc) : soft_fma(0, 0, acc); };
  for (std::size_t k = 0; k < 32; k += 2) {
    add(k + 1);
    add(k);
  }
  return acc;
}

// add_tile(x, w, depth, acc): acc with a depth tile added.
template <class T, class AddTile>
void linear(const T* x, const T* w, const float* bias, float* y, std::size_t m, std::size_t n, std::size_t k,
            AddTile add_tile) {
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      float acc = 0;
      for (std::size_t tile = 0; tile < k; tile += 32)
        acc = add_tile(x + i * k + tile, w + j * k + tile, k - tile, acc);
      y[i * n + j] = canonical_nan(bias != nullptr ? acc + bias[j] : acc);
    }
  }
}

template <class T>
float both_chains(const T* x, const T* w, std::size_t depth, float acc) {
  return acc + (chain(x, w, 0, depth) + chain(x, w, 1, depth));
}

}  // namespace

void linear_bf16(const Bf16* x, const Bf16* w, const float* bias, float* y, std::size_t m, std::size_t n,
                 std::size_t k) {
  linear(x, w, bias, y, m, n, k, both_chains<Bf16>);
}
void linear_bf16_pairs(const Bf16* x, const Bf16* w, const float* bias, float* y, std::size_t m, std::size_t n,
                       std::size_t k) {
  linear(x, w, bias, y, m, n, k, pairs);
}
void linear_f32(const float* x, const float* w, const float* bias, float* y, std::size_t m, std::size_t n,
                std::size_t k) {
  linear(x, w, bias, y, m, n, k, both_chains<float>);
}

}  // namespace mortise::cpu::reference
