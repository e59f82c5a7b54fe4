#include "proposers/mlp_speculator/config.hpp"

#include <cmath>

#include "mortise/config_section.hpp"

namespace mortise::mlp_speculator {

constexpr int64_t kMaxStages = 64;  // far above all published ones: each stage runs a head of its own

double Config::state_weight() const {
  return std::pow(0.5, 0.5 / num_stages);
}

double Config::emb_weight() const {
  return std::sqrt((1 - state_weight() * state_weight()) * inner_dim / 2);
}

Config parse_config(std::string_view json) {
  const nlohmann::json root = parse_object(json);
  const ConfigSection config(root, "");
  if (const std::string type = config.text("model_type", ""); type != "mlp_speculator") {
    unsupported("model type '" + type + "' is not mlp_speculator; a checkpoint that runs by itself is for the " +
                "proposer draft_model");
  }
  Config out;
  out.num_stages = config.size("n_predict", kMaxStages);
  out.emb_dim = config.size("emb_dim", kMaxSize);
  out.inner_dim = static_cast<int32_t>(config.integer("inner_dim", 0, kMaxSize, 0));
  if (out.inner_dim == 0) out.inner_dim = out.emb_dim;
  out.vocab_size = config.size("vocab_size", kMaxSize);
  out.tie_weights = config.boolean("tie_weights", false);
  out.scale_input = config.boolean("scale_input", false);
  return out;
}

}  // namespace mortise::mlp_speculator
