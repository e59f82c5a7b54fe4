// plugins/models/llama/weights.hpp: reads the checkpoint's tensors, checks their shapes and prepares them on the
// device. Projections that read the same input become one weight: [q; k; v] and [gate; up], concatenated by the device;
// in a quantised checkpoint only if they are quantised alike.
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

// A linear layer: the columns of its output, from left to right, are those of its pieces. Mostly one.
struct Piece {
  Weight weight, bias;
  int64_t columns = 0;
};
using Linear = std::vector<Piece>;

struct LayerWeights {
  Weight input_norm;
  Linear qkv;
  Weight q_norm, k_norm;
  Linear o;
  Weight post_attention_norm;
  Linear gate_up, down;
};

struct Weights {
  Weight embedding;
  Weight lm_head;  // null: tied and not quantised, the embedding is the head
  Weight final_norm;
  std::vector<LayerWeights> layers;

  const mortise_weight* head() const { return lm_head ? lm_head.get() : embedding.get(); }
};

// How the model keeps its weights: what it computes in, and the integers that the layers' matrices become (bits 0:
// none). Norms, biases and the embedding stay in dtype. A head is more sensitive than a layer and a small part of a
// large model: it becomes 8 bits with a scale a row, whatever the layers become.
struct WeightFormat {
  int32_t dtype = 0;
  int32_t bits = 0;
  int32_t group_size = 0;
};

// Throws Failure: DATA_LOSS for a missing or misshapen tensor, with its name,
// the shape found and the shape expected; what the device says when it refuses.
Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader);

}  // namespace mortise::llama
