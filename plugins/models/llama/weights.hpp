// plugins/models/llama/weights.hpp: reads the checkpoint's tensors, checks their shapes and prepares them on the
// device. Projections that read the same input become one weight: [q; k; v] and [gate; up], concatenated by the device.
#pragma once

#include <memory>
#include <vector>

#include "models/llama/config.hpp"
#include "mortise/model.h"

namespace mortise::llama {

// The device on which the weights were prepared; both pointers live until the model is destroyed.
struct DeviceRef {
  mortise_device* device = nullptr;
  const mortise_device_table* table = nullptr;
};

struct WeightDeleter {
  DeviceRef owner;
  void operator()(mortise_weight* weight) const { owner.table->free_weight(owner.device, weight); }
};
using Weight = std::unique_ptr<mortise_weight, WeightDeleter>;  // null: the model has none

struct LayerWeights {
  Weight input_norm;
  Weight qkv, qkv_bias;
  Weight q_norm, k_norm;
  Weight o, o_bias;
  Weight post_attention_norm;
  Weight gate_up, gate_up_bias;
  Weight down, down_bias;
};

struct Weights {
  Weight embedding;
  Weight lm_head;  // null: tied, the embedding is the head
  Weight final_norm;
  std::vector<LayerWeights> layers;

  const mortise_weight* head() const { return lm_head ? lm_head.get() : embedding.get(); }
};

// `dtype` is what the model computes in. Throws Failure: DATA_LOSS for a missing or misshapen tensor, with its name,
// the shape found and the shape expected; what the device says when it refuses.
Weights load_weights(const Config& config, int32_t dtype, DeviceRef device, const mortise_weight_reader& reader);

}  // namespace mortise::llama
