#include "proposers/mlp_speculator/weights.hpp"

#include <cmath>
#include <string>

namespace mortise::mlp_speculator {

// norm(state_weight * p + emb_weight * z) equals norm(p * state_weight / emb_weight + z) with an epsilon divided by
// emb_weight^2. So the factor goes into proj once, and stages need no scaling.
Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader) {
  const WeightLoader loader(format, device, reader);
  const std::string prefix = loader.has("speculator.emb.0.weight") ? "speculator." : "";
  const auto name = [&](const char* part, int32_t stage, const char* what) {
    return prefix + part + "." + std::to_string(stage) + what;
  };
  const auto factor = static_cast<float>(config.state_weight() / config.emb_weight());
  const int64_t inner = config.inner_dim;
  const int32_t num_own = config.tie_weights ? 1 : config.num_stages;
  const int32_t num_proj = config.tie_weights ? std::min(2, config.num_stages) : config.num_stages;

  Weights weights;
  if (config.scale_input) weights.input_scale = loader.constant_vector(config.emb_dim, std::sqrt(0.5f));
  for (int32_t i = 0; i < num_proj; ++i) {
    const int64_t columns = i == 0 ? config.emb_dim : inner;
    weights.proj.push_back(loader.scaled_matrix({name("proj", i, ".weight"), inner}, columns, factor));
  }
  for (int32_t i = 0; i < num_own; ++i) {
    weights.emb.push_back(loader.embedding({name("emb", i, ".weight"), config.vocab_size}, inner, /*also_head=*/false));
    weights.norm.push_back(loader.vector({name("ln", i, ".weight"), inner}));
    weights.bias.push_back(loader.values(name("ln", i, ".bias"), {&inner, 1}));
    weights.head.push_back(loader.head({name("head", i, ".weight"), config.vocab_size}, inner));
  }
  return weights;
}

}  // namespace mortise::mlp_speculator
