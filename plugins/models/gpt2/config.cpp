#include "models/gpt2/config.hpp"

namespace mortise::gpt2 {
namespace {

// transformers accepts the general name of a size as well as GPT-2's own name.
int32_t size(const ConfigSection& config, const char* key, const char* general, int64_t max) {
  const bool own = config.find(key) != nullptr || config.find(general) == nullptr;
  const int32_t value = config.size(own ? key : general, max);
  if (own && config.find(general) != nullptr && config.size(general, max) != value) {
    config.fail(general, "the same as " + std::string(key) + ", " + std::to_string(value));
  }
  return value;
}

void parse_sizes(const ConfigSection& config, models::DecoderConfig& out) {
  out.num_layers = size(config, "n_layer", "num_hidden_layers", kMaxLayers);
  // room for q, k and v, and for n_inner, which is 4 hidden_size by default
  out.hidden_size = size(config, "n_embd", "hidden_size", kMaxSize / 4);
  out.embedding_size = out.hidden_size;
  out.intermediate_size = static_cast<int32_t>(config.integer("n_inner", 1, kMaxSize, 4 * int64_t{out.hidden_size}));
  out.vocab_size = config.size("vocab_size", kMaxSize);
  out.max_positions = size(config, "n_positions", "max_position_embeddings", kMaxPositions);
  out.num_heads = size(config, "n_head", "num_attention_heads", kMaxSize);
  if (out.hidden_size % out.num_heads != 0) {
    invalid_value("n_head", std::to_string(out.num_heads), "a divisor of n_embd " + std::to_string(out.hidden_size));
  }
  out.head_dim = out.hidden_size / out.num_heads;
}

void refuse_variants(const ConfigSection& config) {
  if (config.boolean("add_cross_attention", false)) {
    unsupported("add_cross_attention true makes a decoder that reads an encoder; expected false");
  }
  if (config.boolean("scale_attn_by_inverse_layer_idx", false)) {
    unsupported("scale_attn_by_inverse_layer_idx true (another attention scale in each layer) is not supported; " +
                std::string("expected false"));
  }
}

}  // namespace

models::DecoderConfig parse_config(std::string_view text) {
  const nlohmann::json root = parse_object(text);
  const ConfigSection config(root, "");
  models::family_of(config, {{"gpt2", "GPT2LMHeadModel"}});
  refuse_variants(config);
  models::DecoderConfig out = models::shared_config(config, "gelu_new");
  parse_sizes(config, out);
  models::refuse_other_attention(config, /*has_windows=*/false, out.max_positions);
  out.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 1e-30, 1.0, 1e-5));
  // reorder_and_upcast_attn changes the order and precision of the scaling. docs/numerics.md fixes both, so it is
  // ignored.
  out.attention_scale = config.boolean("scale_attn_weights", true) ? models::usual_scale(out.head_dim) : 1.0f;
  return out;
}

const models::DecoderNames& tensor_names() {
  static const models::DecoderNames names = {
      .prefixes = {"transformer.", ""},
      .embedding = "wte.weight",
      .positions = "wpe.weight",
      .skipped_positions = 0,
      .project_in = nullptr,
      .project_out = nullptr,
      .final_norm = "ln_f",
      .layers = "h.",
      .attention_norm = "ln_1",
      .qkv = {"attn.c_attn"},
      .attention_out = "attn.c_proj",
      .mlp_norm = "ln_2",
      .up = "mlp.c_fc",
      .down = "mlp.c_proj",
      .layout = MatrixLayout::kOutputColumns,
  };
  return names;
}

}  // namespace mortise::gpt2
