// plugins/models/llama/config.hpp: reads and checks the checkpoint's config.json. The families differ in a few facts
// (biases, norms of q and k, windows), which are decided here. No other file of the plugin knows the names of the
// families.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/common/checkpoint_config.hpp"

namespace mortise::llama {

enum class RopeScaling { kNone, kLinear, kLlama3, kYarn, kFactors };

struct Rope {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // >= 1
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_positions = 0.0;
  // Of YaRN: the ramp begins and ends where a pair turns so often within the original length; `truncate`: at a whole
  // pair.
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;
  float attention_factor = 1.0f;  // multiplies cosine and sine
  std::vector<float> factors;     // of kFactors: what each frequency is divided by, [head_dim / 2]
  bool operator==(const Rope&) const = default;
};

// The settings of a config.json that the model needs. A value.
struct Config {
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab_size = 0;
  int32_t max_positions = 0;
  float norm_eps = 0;
  int32_t checkpoint_dtype = 0;  // MORTISE_BF16, MORTISE_F16 or MORTISE_F32
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool tied_embeddings = false;
  models::Quantization quantization;
  Rope rope;
  std::vector<int32_t> sliding_windows;  // [num_layers], 0: no window; empty: no layer has a window

  bool operator==(const Config&) const = default;

  int32_t q_columns() const { return num_heads * head_dim; }
  int32_t kv_columns() const { return num_kv_heads * head_dim; }
  int32_t qkv_columns() const { return q_columns() + 2 * kv_columns(); }
};

// Reads the normalised config.json. Throws Failure: UNIMPLEMENTED for a model that this plugin cannot compute exactly,
// INVALID_ARGUMENT for an invalid value. The message names the key, the value and the expected values.
Config parse_config(std::string_view json);

}  // namespace mortise::llama
