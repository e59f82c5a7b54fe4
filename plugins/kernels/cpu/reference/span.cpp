#include "kernels/cpu/reference/span.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/reference/scalar.hpp"

namespace mortise::cpu::reference {
namespace {

constexpr int kSpanKeys = 256, kDepthTile = 32, kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float round_bf16(float x) {
  return from_bf16(to_bf16(x));
}

// exp2 of the kernels, for x <= 0.
float exp2_scalar(float x) {
  constexpr float c[] = {0x1.62e43p-1f,  0x1.ebfbdcp-3f,  0x1.c6aee8p-5f,
                         0x1.3b2d4cp-7f, 0x1.5f3e54p-10f, 0x1.41fbbcp-13f};
  if (x != x) return x;
  if (x <= -126.0f) return 0.0f;
  const double shifted = static_cast<double>(x) + 0x1.8p52;  // the nearest integer, ties to even
  const float n = static_cast<float>(shifted - 0x1.8p52);
  const float f = x - n;
  float p = c[5];
  for (int i = 4; i >= 0; --i) p = soft_fma(p, f, c[i]);
  p = soft_fma(f, p, 1.0f);
  return bit_cast_to<float>(bit_cast_to<std::uint32_t>(p) + (static_cast<std::uint32_t>(static_cast<int>(n)) << 23));
}

// A sum in the order of linear. In depth tiles of 32: an even and an odd chain from 0, then acc + (a + b). In pairs:
// one chain, the odd element of each pair first, n filled up with zeros to a whole depth tile.
template <class Left, class Right>
float linear_order(bool pairs, int n, Left left, Right right) {
  float acc = 0.0f;
  if (pairs) {
    const auto add = [&](int i) { acc = i < n ? soft_fma(left(i), right(i), acc) : soft_fma(0.0f, 0.0f, acc); };
    for (int i = 0; i < (n + kDepthTile - 1) / kDepthTile * kDepthTile; i += 2) {
      add(i + 1);
      add(i);
    }
    return acc;
  }
  for (int begin = 0; begin < n; begin += kDepthTile) {
    float a = 0.0f, b = 0.0f;
    for (int i = begin; i < std::min(n, begin + kDepthTile); i += 2) {
      a = soft_fma(left(i), right(i), a);
      b = soft_fma(left(i + 1), right(i + 1), b);
    }
    const float tile = a + b;
    acc = acc + tile;
  }
  return acc;
}

// Lane i of sixteen adds p[i], p[16 + i], ..; then the tree.
float sum_of(const std::vector<float>& p) {
  float lanes[kLanes] = {};
  for (std::size_t i = 0; i < p.size(); ++i) lanes[i % kLanes] = lanes[i % kLanes] + p[i];
  return tree_sum(lanes);
}

}  // namespace

void span_written(float* k, float* v, int head_dim) {
  const bool finite = std::all_of(v, v + head_dim, [](float x) { return std::isfinite(x); });
  if (finite) return;
  std::fill_n(k, head_dim, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(v, head_dim, 0.0f);
}

bool span_partial(const SpanRow& row, int span, float* max, float* sum, float* o) {
  const int start = span * kSpanKeys;
  const int first = std::max(start, row.window > 0 ? row.position - row.window + 1 : 0);
  const int end = std::min(start + kSpanKeys, row.position + 1);
  if (first >= end) return false;
  const auto k = [&](int key, int d) { return row.k[static_cast<std::ptrdiff_t>(key) * row.head_dim + d]; };
  const auto v = [&](int key, int d) { return row.v[static_cast<std::ptrdiff_t>(key) * row.head_dim + d]; };

  std::vector<float> t(kSpanKeys), p(kSpanKeys, 0.0f);
  float largest = -kInfinity;
  for (int key = first; key < end; ++key) {
    float s = linear_order(
        row.pairs, row.head_dim, [&](int d) { return row.q[d]; }, [&](int d) { return k(key, d); });
    if (row.key_scales != nullptr) s = soft_product(s, row.key_scales[key]);
    const float scaled = soft_product(s, row.scale);
    t[static_cast<std::size_t>(key - start)] = scaled;
    largest = std::max(largest, scaled);
  }
  const auto rounded = [&](float x) { return row.bf16 ? round_bf16(x) : x; };
  for (int key = first; key < end; ++key) {
    const std::size_t i = static_cast<std::size_t>(key - start);
    const float e = exp2_scalar(t[i] - largest);
    p[i] = row.value_scales == nullptr ? rounded(e) : e;
  }
  *max = largest;
  *sum = sum_of(p);
  for (int key = first; key < end && row.value_scales != nullptr; ++key) {
    float& weight = p[static_cast<std::size_t>(key - start)];
    if (weight != 0) weight = rounded(soft_product(weight, row.value_scales[key]));
  }
  for (int d = 0; d < row.head_dim; ++d) {
    const int keys = end - start;  // an odd number of keys is padded with a zero
    const float acc = linear_order(
        row.pairs, keys, [&](int i) { return i < keys ? p[static_cast<std::size_t>(i)] : 0.0f; },
        [&](int i) { return i < keys && start + i >= first ? v(start + i, d) : 0.0f; });
    o[d] = acc + 0.0f;
  }
  return true;
}

void span_row(const SpanRow& row, float* out) {
  const std::size_t head_dim = static_cast<std::size_t>(row.head_dim);
  std::vector<float> o1(head_dim), o2(head_dim);
  float m1 = -kInfinity, sum1 = 0.0f;
  bool seen = false;
  for (int span = 0; span * kSpanKeys <= row.position; ++span) {
    float m2, sum2;
    if (!span_partial(row, span, &m2, &sum2, o2.data())) continue;
    if (!seen) {
      m1 = m2, sum1 = sum2, o1 = o2;
      seen = true;
      continue;
    }
    const float m = m1 > m2 ? m1 : m2;
    const float w1 = exp2_scalar(m1 - m), w2 = exp2_scalar(m2 - m);
    const float left = soft_product(sum1, w1), right = soft_product(sum2, w2);
    sum1 = left + right;
    for (std::size_t d = 0; d < head_dim; ++d) {
      const float o_left = soft_product(o1[d], w1), o_right = soft_product(o2[d], w2);
      o1[d] = o_left + o_right;
    }
    m1 = m;
  }
  for (std::size_t d = 0; d < head_dim; ++d) {
    const float value = seen ? o1[d] / sum1 : 0.0f;
    out[d] = row.bf16 ? round_bf16(value) : canonical_nan(value);
  }
}

}  // namespace mortise::cpu::reference
