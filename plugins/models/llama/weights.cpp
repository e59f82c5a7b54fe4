#include "models/llama/weights.hpp"

#include <string>

namespace mortise::llama {
namespace {

LayerWeights load_layer(const Config& config, const WeightLoader& loader, const std::string& prefix) {
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t q = config.q_columns();
  const int64_t kv = config.kv_columns();

  LayerWeights out;
  out.input_norm = loader.vector({prefix + "input_layernorm.weight", hidden});
  out.qkv = loader.linear({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}}, hidden,
                          config.qkv_bias);
  if (config.qk_norm) {
    out.q_norm = loader.vector({attention + "q_norm.weight", config.head_dim});
    out.k_norm = loader.vector({attention + "k_norm.weight", config.head_dim});
  }
  out.o = loader.linear({{attention + "o_proj", hidden}}, q, config.o_bias);
  out.post_attention_norm = loader.vector({prefix + "post_attention_layernorm.weight", hidden});
  out.gate_up =
      loader.linear({{mlp + "gate_proj", intermediate}, {mlp + "up_proj", intermediate}}, hidden, config.mlp_bias);
  out.down = loader.linear({{mlp + "down_proj", hidden}}, intermediate, config.mlp_bias);
  return out;
}

}  // namespace

Weights load_weights(const Config& config, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader) {
  const WeightLoader loader(format, device, reader);
  const bool shared = config.tied_embeddings && format.head_in_dtype();
  const CheckpointTensor embedding = {"model.embed_tokens.weight", config.vocab_size};
  if (config.tied_embeddings) loader.require_tied(embedding, config.hidden_size);
  Weights weights;
  weights.embedding = loader.embedding(embedding, config.hidden_size, shared);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    weights.layers.push_back(load_layer(config, loader, "model.layers." + std::to_string(i) + "."));
  }
  weights.final_norm = loader.vector({"model.norm.weight", config.hidden_size});
  if (!shared) {
    weights.lm_head = loader.head(
        config.tied_embeddings ? embedding : CheckpointTensor{"lm_head.weight", config.vocab_size}, config.hidden_size);
  }
  return weights;
}

}  // namespace mortise::llama
