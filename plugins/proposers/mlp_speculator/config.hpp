// plugins/proposers/mlp_speculator/config.hpp: the checked contents of a published speculator's config.json.
#pragma once

#include <cstdint>
#include <string_view>

namespace mortise::mlp_speculator {

// The settings of a speculator's config.json. A value.
struct Config {
  int32_t num_stages = 0;  // n_predict
  int32_t emb_dim = 0;     // of the target's hidden rows
  int32_t inner_dim = 0;
  int32_t vocab_size = 0;
  bool tie_weights = false;
  bool scale_input = false;

  // Return the weights of the two summands of a stage's state. They are chosen so that after all
  // stages the first state still makes up half of the state's sum of squares, on average over random states.
  double state_weight() const;
  double emb_weight() const;
};

// Reads the normalised config.json. Throws a Failure that names the key, its value and what was expected.
Config parse_config(std::string_view json);

}  // namespace mortise::mlp_speculator
