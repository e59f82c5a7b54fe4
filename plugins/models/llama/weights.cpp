#include "models/llama/weights.hpp"

#include <algorithm>
#include <string>

namespace mortise::llama {
namespace {

LayerWeights load_layer(const Config& config, const LayerShare& share, const WeightLoader& loader,
                        const std::string& prefix) {
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t q = config.q_columns();
  const int64_t kv = config.kv_columns();

  LayerWeights out;
  out.input_norm = loader.vector({prefix + "input_layernorm.weight", hidden});
  const models::RankShare& ranks = share.ranks;
  const int64_t first_kv = int64_t{share.first_kv_head} * config.head_dim;
  const int64_t own_kv = int64_t{share.num_kv_heads} * config.head_dim;
  out.qkv = loader.linear({ranks.rows(attention + "q_proj", q),
                           {attention + "k_proj", kv, first_kv, own_kv},
                           {attention + "v_proj", kv, first_kv, own_kv}},
                          hidden, config.qkv_bias);
  if (config.qk_norm) {
    out.q_norm = loader.vector({attention + "q_norm.weight", config.head_dim});
    out.k_norm = loader.vector({attention + "k_norm.weight", config.head_dim});
  }
  out.o = loader.linear({ranks.rows(attention + "o_proj", hidden)}, q, config.o_bias);
  out.post_attention_norm = loader.vector({prefix + "post_attention_layernorm.weight", hidden});
  out.gate_up = loader.linear({ranks.rows(mlp + "gate_proj", intermediate), ranks.rows(mlp + "up_proj", intermediate)},
                              hidden, config.mlp_bias);
  out.down = loader.linear({ranks.rows(mlp + "down_proj", hidden)}, intermediate, config.mlp_bias);
  return out;
}

}  // namespace

LayerShare LayerShare::of(const mortise_create_args& args, const Config& config) {
  LayerShare share;
  share.ranks = models::RankShare::of(args, {{"num_attention_heads", config.num_heads},
                                             {"hidden_size", config.hidden_size},
                                             {"intermediate_size", config.intermediate_size}});
  const int32_t world = share.ranks.world;
  if (world <= config.num_kv_heads || world % config.num_kv_heads != 0) {
    models::RankShare::of(args, {{"num_key_value_heads", config.num_kv_heads}});
  }
  share.num_heads = share.ranks.share(config.num_heads);
  share.num_kv_heads = std::max(1, share.ranks.share(config.num_kv_heads));
  share.first_kv_head = static_cast<int32_t>(int64_t{share.ranks.rank} * config.num_kv_heads / world);
  return share;
}

Weights load_weights(const Config& config, const LayerShare& share, const WeightFormat& format, DeviceRef device,
                     const mortise_weight_reader& reader) {
  const WeightLoader loader(format, device, reader);
  const CheckpointTensor embedding = {"model.embed_tokens.weight", config.vocab_size};
  const bool shared =
      config.tied_embeddings && share.ranks.world == 1 && loader.embedding_is_head(embedding, config.hidden_size);
  if (config.tied_embeddings) loader.require_tied(embedding, config.hidden_size);
  Weights weights;
  weights.embedding = loader.embedding(embedding, config.hidden_size, shared, share.ranks.rank, share.ranks.world);
  for (int32_t i = 0; i < config.num_layers; ++i) {
    weights.layers.push_back(load_layer(config, share, loader, "model.layers." + std::to_string(i) + "."));
  }
  weights.final_norm = loader.vector({"model.norm.weight", config.hidden_size});
  if (!shared) {
    const std::string head = config.tied_embeddings ? embedding.name : "lm_head.weight";
    weights.lm_head = loader.head(share.ranks.vocab_rows(head, config.vocab_size), config.hidden_size);
  }
  return weights;
}

}  // namespace mortise::llama
