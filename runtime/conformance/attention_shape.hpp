// runtime/conformance/attention_shape.hpp: the model that an attention is tried with, and the numbers in its rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mortise/batch.h"

namespace mortise::conformance {

// The dimensions with which an attention is tested. A value.
struct AttentionShape {
  std::int32_t dtype = MORTISE_BF16;  // of activations and of the KV cache
  std::int32_t num_layers = 2;
  std::int32_t num_heads = 4;
  std::int32_t num_kv_heads = 2;
  std::int32_t head_dim = 64;
  std::int32_t block_size = 16;
  std::vector<std::int32_t> windows = {};  // [num_layers] sliding windows; empty: none
  std::int32_t rotary_dim = 64;            // 0: no rotary embedding
  bool interleaved = false;                // whether the pairs of the rotary embedding are neighbours
  bool has_norms = false;                  // whether the heads of q and k have norms

  // `windows` is borrowed.
  mortise_model_dims dims() const;
  std::string text() const;  // "4 heads of 64, 2 KV heads, bf16, blocks of 16"
  bool is_bf16() const { return dtype == MORTISE_BF16; }
  std::size_t element_bytes() const { return is_bf16() ? 2 : 4; }
};

inline constexpr std::int32_t kVocabSize = 512;     // of the model that a part serves
inline constexpr std::int32_t kMaxModelLen = 4096;  // in tokens
inline constexpr float kNormEps = 1e-6f;

enum class Projection : std::uint32_t { kQuery, kKey, kValue };

// A token whose values are NaN.
inline constexpr std::int32_t kPoison = -1;

// Returns the numbers of one head before norm and rotary embedding, as values of the shape's dtype. They depend on the
// arguments alone: equal tokens at equal positions have equal keys, whichever sequence they are in.
std::vector<float> head_values(const AttentionShape& shape, Projection projection, std::int32_t token,
                               std::int32_t position, std::int32_t layer, std::int32_t head);

// Return the tables of mortise_rope, [kMaxModelLen, rotary_dim / 2], and the weights of the norms, [head_dim].
std::vector<float> rope_table(const AttentionShape& shape, bool sine);
std::vector<float> norm_weight(const AttentionShape& shape, Projection projection);

}  // namespace mortise::conformance
