// plugins/models/llama/model.hpp: an instance of the model, from its configuration to hidden rows and logits. It keeps
// weights, a rope table and buffers for one step in device memory, and no state of any sequence. Everything that a step
// runs on (device table, attention, stream) is an argument of the step. Used by the thread that runs steps.
#pragma once

#include <string_view>

#include "models/common/model_options.hpp"
#include "models/common/rank_share.hpp"
#include "models/llama/config.hpp"
#include "models/llama/weights.hpp"
#include "mortise/device.hpp"

namespace mortise::llama {

// Outputs of the operations of a step, for max_batched_tokens rows. With several ranks, each computes its columns of a
// row, and the others' columns come from them; only qkv and gate_up hold the rank's own columns alone.
struct Buffers {
  RowBuffer residual;   // [hidden_size]
  RowBuffer x;          // [hidden_size]: normed input of a block, its output, finally `hidden`
  RowBuffer qkv;        // [q_columns + 2 * kv_columns] of the rank
  RowBuffer attention;  // [q_columns]
  RowBuffer gate_up;    // [2 * intermediate_size] of the rank; only if gate and up are separate weights
  RowBuffer activated;  // [intermediate_size]
};

// Invariant: weights and rope table never change after load and activate; buffers hold rows of the running step only.
// Used only by the thread that runs steps.
class Model {
 public:
  // REQUIRES: the options were validated by the schema. Throws Failure, see parse_config.
  explicit Model(const mortise_create_args& args);

  static void check_config(std::string_view config) { parse_config(config); }  // throws what parse_config does

  const mortise_model_dims& dims() const { return dims_; }
  void tell(const mortise_host* host) const {
    models::tell_rounding(host, config_.checkpoint_dtype, dims_.dtype);
    models::tell_floats(host, device_, config_.quantization);
  }
  void load(const mortise_weight_reader& reader);
  void activate(const mortise_activate_args& args);
  void deactivate();

  // Runs all layers on the rows of the step. Returns `hidden`, which is valid until the next forward.
  mortise_tensor forward(const mortise_step& step);
  void head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
            const mortise_tensor& logits);

 private:
  void build_rope_table(int64_t num_positions);
  void run_attention(const mortise_step& step, int32_t layer, int32_t num_tokens);
  void run_mlp(const mortise_step& step, int32_t layer, int32_t num_tokens);

  DeviceRef device_;
  Config config_;
  LayerShare share_;
  mortise_model_dims dims_;
  WeightFormat format_;
  Weights weights_;
  int32_t max_batched_tokens_ = 0;
  Buffers buffers_;
  DeviceMemory cos_;  // [max_model_len, head_dim / 2]
  DeviceMemory sin_;
};

}  // namespace mortise::llama
