// plugins/proposers/mlp_speculator/weights.hpp: the tensors of a speculator on the device.
#pragma once

#include <vector>

#include "mortise/weights.hpp"
#include "proposers/mlp_speculator/config.hpp"

namespace mortise::mlp_speculator {

// The weights of a speculator, on the device. Owns them. Any thread may read them once they are loaded.
struct Weights {
  Weight input_scale;  // null: the input is not scaled
  // One weight per stage. Stages with tied weights share one, except that proj has a separate first weight for the
  // target's rows.
  std::vector<Weight> emb, proj, norm, head;
  std::vector<std::vector<float>> bias;  // of norm

  const Weight& of(const std::vector<Weight>& weights, int32_t stage) const {
    return weights[std::min(static_cast<std::size_t>(stage), weights.size() - 1)];
  }
};

// Throws the Failures that WeightLoader throws.
Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader);

}  // namespace mortise::mlp_speculator
