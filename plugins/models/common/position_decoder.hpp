// plugins/models/common/position_decoder.hpp: the decoder that OPT and GPT-2 share: learned positions, layer norms,
// biases, one activation between two products. DecoderConfig and DecoderNames have the differences.
//   h := project_in(embedding[ids]) + positions[p]
//   norm first:  h += out(attention(qkv(norm(h))));  h += down(act(up(norm(h))));  after the layers h := final_norm(h)
//   norm last:   h := norm(h + out(attention(qkv(h))));  h := norm(h + down(act(up(h))))
//   hidden := project_out(h)
// An instance keeps weights and buffers for one step, all in device memory, and nothing of any sequence.
#pragma once

#include <vector>

#include "models/common/model_options.hpp"
#include "models/common/rank_share.hpp"
#include "mortise/device.hpp"

namespace mortise::models {

struct DecoderConfig {
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  // columns of the embedding and of the head's input; projected if it differs from hidden_size
  int32_t embedding_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab_size = 0;
  int32_t max_positions = 0;
  float norm_eps = 0;
  float attention_scale = 0;
  int32_t activation = 0;  // MORTISE_ACT_*
  bool norm_first = true;
  bool final_norm = true;
  bool biases = true;        // of the layers' products
  bool norm_weights = true;  // false: norms have neither weight nor bias
  bool tied_embeddings = true;
  int32_t checkpoint_dtype = 0;
  Quantization quantization;
  bool operator==(const DecoderConfig&) const = default;
};

// Reads the settings that the config.json of OPT and of GPT-2 call by the same names: the activation, whether the head
// is the embedding, and how the weights are stored.
DecoderConfig shared_config(const ConfigSection& config, const char* default_activation);
// Returns the usual factor of attention scores, 1 / sqrt(head_dim).
float usual_scale(int32_t head_dim);

// The names of a decoder's tensors in the checkpoint. Static.
struct DecoderNames {
  // of all tensors but lm_head.weight; the first prefix with which the embedding exists is used
  std::vector<const char*> prefixes;
  const char* embedding;
  const char* positions;
  int64_t skipped_positions;  // rows of the table that come before position 0
  const char* project_in;
  const char* project_out;
  const char* final_norm;
  const char* layers;  // a layer's names begin with this and its number
  const char* attention_norm;
  std::vector<const char*> qkv;  // one tensor with q, k and v side by side, or three
  const char* attention_out;
  const char* mlp_norm;
  const char* up;
  const char* down;
  MatrixLayout layout;
};

// Invariant: buffers_ hold rows of the running step only; nothing of a sequence is kept. Used only by the thread that
// runs steps.
class PositionDecoder {
 public:
  // REQUIRES: the options were validated by the schema; `names` lives longer than the instance.
  PositionDecoder(const mortise_create_args& args, const DecoderConfig& config, const DecoderNames& names);

  const mortise_model_dims& dims() const { return dims_; }
  void tell(const mortise_host* host) const {
    tell_rounding(host, config_.checkpoint_dtype, dims_.dtype);
    tell_floats(host, device_, config_.quantization);
  }
  void load(const mortise_weight_reader& reader);
  void activate(const mortise_activate_args& args);
  void deactivate();

  // Runs all layers over the step's rows; returns `hidden`, valid until the next forward.
  mortise_tensor forward(const mortise_step& step);
  void head(const mortise_step& step, const mortise_tensor& hidden, int32_t vocab_begin, int32_t vocab_end,
            const mortise_tensor& logits);

 private:
  struct Norm {
    Weight weight, bias;
  };
  struct Layer {
    Norm attention_norm, mlp_norm;
    Linear qkv, attention_out, up, down;
  };
  struct Weights {
    Weight embedding, positions;
    Weight lm_head;  // null: the embedding, which is tied, not quantised and not cut
    Linear project_in, project_out;
    Norm final_norm;
    std::vector<Layer> layers;
  };
  // Outputs of a step, for max_batched_tokens rows.
  struct Buffers {
    RowBuffer stream, other;  // [hidden_size]: alternate as h and as the block output that is added to it
    RowBuffer embedded;   // [embedding_size], if that differs from hidden_size: the embedding, and at the end `hidden`
    RowBuffer qkv;        // [3 * hidden_size] of the rank
    RowBuffer attention;  // [hidden_size]
    RowBuffer activated;  // [intermediate_size]
  };

  bool projected() const { return config_.embedding_size != config_.hidden_size; }
  Norm load_norm(const WeightLoader& loader, const std::string& name) const;
  Layer load_layer(const WeightLoader& loader, const std::string& prefix) const;
  Weights load_weights(const WeightLoader& loader) const;
  void embed(const mortise_step& step, const mortise_batch& batch, int32_t num_tokens);
  void run_attention(const mortise_step& step, int32_t layer, const mortise_tensor& x, const mortise_tensor& out);
  void run_mlp(const mortise_step& step, int32_t layer, const mortise_tensor& x, const mortise_tensor& out);
  mortise_tensor run_norm_first(const mortise_step& step, int32_t num_tokens);
  mortise_tensor run_norm_last(const mortise_step& step, int32_t num_tokens);

  const DeviceRef device_;
  const DecoderConfig config_;
  const DecoderNames& names_;
  const RankShare share_;
  mortise_model_dims dims_;
  WeightFormat format_;
  Weights weights_;
  int32_t max_batched_tokens_ = 0;
  Buffers buffers_;
};

}  // namespace mortise::models
