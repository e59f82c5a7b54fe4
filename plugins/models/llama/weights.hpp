// plugins/models/llama/weights.hpp: the tensors of the family on the device. Projections with the same input become one
// weight: [q; k; v] and [gate; up].
#pragma once

#include <vector>

#include "models/llama/config.hpp"
#include "mortise/weights.hpp"

namespace mortise::llama {

struct LayerWeights {
  Weight input_norm;
  Linear qkv;
  Weight q_norm, k_norm;
  Linear o;
  Weight post_attention_norm;
  Linear gate_up, down;
};

// The weights of a model, on the device. Owns them. Any thread may read them once they are loaded.
struct Weights {
  Weight embedding;
  Weight lm_head;  // null: tied to the embedding and not quantised
  Weight final_norm;
  std::vector<LayerWeights> layers;

  const mortise_weight* head() const { return lm_head ? lm_head.get() : embedding.get(); }
};

// Throws the Failures of WeightLoader.
Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader);

}  // namespace mortise::llama
