#include "models/opt/config.hpp"

namespace mortise::opt {
namespace {

constexpr float kNormEps = 1e-5f;  // torch's default, which OPT uses; no configuration names it

void parse_sizes(const ConfigSection& config, models::DecoderConfig& out) {
  out.num_layers = config.size("num_hidden_layers", kMaxLayers);
  out.hidden_size = config.size("hidden_size", kMaxSize / 3);  // room for q, k and v side by side
  out.intermediate_size = config.size("ffn_dim", kMaxSize);
  out.vocab_size = config.size("vocab_size", kMaxSize);
  out.max_positions = config.size("max_position_embeddings", kMaxPositions);
  out.embedding_size = static_cast<int32_t>(config.integer("word_embed_proj_dim", 1, kMaxSize, out.hidden_size));
  out.num_heads = config.size("num_attention_heads", kMaxSize);
  if (out.hidden_size % out.num_heads != 0) {
    config.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(out.hidden_size));
  }
  out.head_dim = out.hidden_size / out.num_heads;
}

}  // namespace

models::DecoderConfig parse_config(std::string_view text) {
  const nlohmann::json root = parse_object(text);
  const ConfigSection config(root, "");
  models::family_of(config, {{"opt", "OPTForCausalLM"}});
  models::DecoderConfig out = models::shared_config(config, "relu");
  parse_sizes(config, out);
  models::refuse_other_attention(config, /*has_windows=*/false, out.max_positions);
  out.norm_eps = kNormEps;
  out.attention_scale = models::usual_scale(out.head_dim);
  out.norm_first = config.boolean("do_layer_norm_before", true);
  // Models with the norm last have no final norm. Nor have models that were fine-tuned before transformers 4.20.1;
  // their configuration has a key for that.
  out.final_norm = out.norm_first && !config.boolean("_remove_final_layer_norm", false);
  out.biases = config.boolean("enable_bias", true);
  out.norm_weights = config.boolean("layer_norm_elementwise_affine", true);
  return out;
}

const models::DecoderNames& tensor_names() {
  static const models::DecoderNames names = {
      .prefixes = {"model.decoder.", "decoder."},
      .embedding = "embed_tokens.weight",
      .positions = "embed_positions.weight",
      .skipped_positions = 2,  // fairseq's padding index and the row before it
      .project_in = "project_in",
      .project_out = "project_out",
      .final_norm = "final_layer_norm",
      .layers = "layers.",
      .attention_norm = "self_attn_layer_norm",
      .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
      .attention_out = "self_attn.out_proj",
      .mlp_norm = "final_layer_norm",
      .up = "fc1",
      .down = "fc2",
      .layout = MatrixLayout::kOutputRows,
  };
  return names;
}

}  // namespace mortise::opt
