#include "kernels/cpu/reference/norm.hpp"

#include <vector>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

// The row to normalise as f32: residual = round(x + residual), or x if there is no residual.
template <class T>
std::vector<float> row_of(const T* x, T* residual, std::size_t n) {
  std::vector<float> row(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (residual != nullptr) put(residual[i], get(x[i]) + get(residual[i]));
    row[i] = residual != nullptr ? get(residual[i]) : get(x[i]);
  }
  return row;
}

// Sum of (v[i] - shift)^2: lane i % 16 by fma in ascending i, then the tree.
float sum_of_squares(const std::vector<float>& v, float shift) {
  float lanes[16] = {};
  for (std::size_t i = 0; i < v.size(); ++i) {
    const float d = v[i] - shift;
    lanes[i % 16] = soft_fma(d, d, lanes[i % 16]);
  }
  return tree_sum(lanes);
}

float inverse_deviation(float squares, std::size_t n, float eps) {
  return 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
}

// Rounds to the type and returns an f32.
float rounded(float x, Bf16) {
  return from_bf16(to_bf16(x));
}
float rounded(float x, float) {
  return x;
}

}  // namespace

template <class T>
void rms_norm(const T* x, T* residual, const T* weight, T* out, std::size_t n, float eps) {
  const std::vector<float> row = row_of(x, residual, n);
  const float inverse = inverse_deviation(sum_of_squares(row, 0.0f), n, eps);
  for (std::size_t i = 0; i < n; ++i) {
    put(out[i], soft_product(get(weight[i]), rounded(soft_product(row[i], inverse), T{})));
  }
}

template <class T>
void layer_norm(const T* x, T* residual, const T* weight, const T* bias, T* out, std::size_t n, float eps) {
  const std::vector<float> row = row_of(x, residual, n);
  float lanes[16] = {};
  for (std::size_t i = 0; i < n; ++i) lanes[i % 16] = lanes[i % 16] + row[i];
  const float mean = tree_sum(lanes) / static_cast<float>(n);
  const float inverse = inverse_deviation(sum_of_squares(row, mean), n, eps);
  for (std::size_t i = 0; i < n; ++i) {
    const float normed = soft_product(row[i] - mean, inverse), scale = get(weight[i]);
    put(out[i], bias == nullptr ? soft_product(normed, scale) : soft_fma(normed, scale, get(bias[i])));
  }
}

template void rms_norm(const Bf16*, Bf16*, const Bf16*, Bf16*, std::size_t, float);
template void rms_norm(const float*, float*, const float*, float*, std::size_t, float);
template void layer_norm(const Bf16*, Bf16*, const Bf16*, const Bf16*, Bf16*, std::size_t, float);
template void layer_norm(const float*, float*, const float*, const float*, float*, std::size_t, float);

}  // namespace mortise::cpu::reference
