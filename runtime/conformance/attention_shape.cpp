#include "conformance/attention_shape.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "mortise/numerics.h"

namespace mortise::conformance {
namespace {

// Returns a number of [-1, 1] that is a function of its argument (splitmix64).
float uniform(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1);
}

}  // namespace

mortise_model_dims AttentionShape::dims() const {
  mortise_model_dims dims{};
  dims.struct_size = sizeof dims;
  dims.num_layers = num_layers;
  dims.hidden_size = num_heads * head_dim;
  dims.num_heads = num_heads;
  dims.num_kv_heads = num_kv_heads;
  dims.head_dim = head_dim;
  dims.vocab_size = kVocabSize;
  dims.max_model_len = kMaxModelLen;
  dims.dtype = dtype;
  dims.attention_scale = 1 / std::sqrt(static_cast<float>(head_dim));
  dims.sliding_windows = windows.empty() ? nullptr : windows.data();
  return dims;
}

std::string AttentionShape::text() const {
  return fmt::format("{} heads of {}, {} KV heads, {}, blocks of {}{}{}", num_heads, head_dim, num_kv_heads,
                     is_bf16() ? "bf16" : "f32", block_size, windows.empty() ? "" : ", sliding windows",
                     has_norms ? ", norms of q and k" : "");
}

std::vector<float> head_values(const AttentionShape& shape, Projection projection, std::int32_t token,
                               std::int32_t position, std::int32_t layer, std::int32_t head) {
  std::vector<float> values(static_cast<std::size_t>(shape.head_dim));
  std::uint64_t key = static_cast<std::uint32_t>(token);
  for (const auto part : {position, layer, head, static_cast<std::int32_t>(projection)}) {
    key = (key ^ static_cast<std::uint32_t>(part)) * 0xd1342543de82ef95u + 1;
  }
  const float range = projection == Projection::kValue ? 1.0f : 2.0f;  // wide enough for scores that differ
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = token == kPoison ? std::numeric_limits<float>::quiet_NaN() : range * uniform(key + i);
    values[i] = mortise_round(values[i], shape.is_bf16());
  }
  return values;
}

std::vector<float> rope_table(const AttentionShape& shape, bool sine) {
  const std::int32_t half = shape.rotary_dim / 2;
  std::vector<float> table;
  for (std::int32_t position = 0; position < kMaxModelLen; ++position) {
    for (std::int32_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(10000.0, -static_cast<double>(i) / half);
      table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
    }
  }
  return table;
}

std::vector<float> norm_weight(const AttentionShape& shape, Projection projection) {
  std::vector<float> weight;
  for (std::int32_t i = 0; i < shape.head_dim; ++i) {
    const auto place = static_cast<std::uint64_t>(i) + 1000 * static_cast<std::uint64_t>(projection);
    weight.push_back(mortise_round(1 + 0.5f * uniform(place), shape.is_bf16()));
  }
  return weight;
}

}  // namespace mortise::conformance
