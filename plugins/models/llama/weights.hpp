// plugins/models/llama/weights.hpp: the tensors of the family on the device. Projections with the same input become one
// weight: [q; k; v] and [gate; up].
#pragma once

#include <vector>

#include "models/common/rank_share.hpp"
#include "models/llama/config.hpp"
#include "mortise/weights.hpp"

namespace mortise::llama {

// The heads of each layer that a rank computes. If there are more ranks than KV heads, ranks share a KV head. A value.
struct LayerShare {
  models::RankShare ranks;
  int32_t num_heads = 0, num_kv_heads = 0;
  int32_t first_kv_head = 0;

  // Throws the Failures of RankShare::of.
  static LayerShare of(const mortise_create_args& args, const Config& config);
  int64_t qkv_columns(int32_t head_dim) const { return int64_t{num_heads + 2 * num_kv_heads} * head_dim; }
};

struct LayerWeights {
  Weight input_norm;
  Linear qkv;
  Weight q_norm, k_norm;
  Linear o;
  Weight post_attention_norm;
  Linear gate_up, down;
};

// The weights of a model that a rank needs, on its device. Owns them. Any thread may read them once they are loaded.
struct Weights {
  Weight embedding;
  Weight lm_head;  // null: the embedding, which is tied, not quantised and not cut
  Weight final_norm;
  std::vector<LayerWeights> layers;

  const mortise_weight* head() const { return lm_head ? lm_head.get() : embedding.get(); }
};

// Throws the Failures of WeightLoader.
Weights load_weights(const Config& config, const LayerShare& share, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader);

}  // namespace mortise::llama
