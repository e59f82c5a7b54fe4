#include "models/llama/config.hpp"

#include <algorithm>
#include <string>

#include "models/llama/exact_math.hpp"

namespace mortise::llama {
namespace {

using nlohmann::json;

// The factor of cosine and sine, from the factor of the length: 1 + 0.1 mscale ln(factor).
double yarn_scale(double factor, double mscale) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * (log2_of(factor) * kLn2) + 1.0;
}

void read_yarn(const ConfigSection& section, int64_t max_positions, Rope& rope) {
  rope.scaling = RopeScaling::kYarn;
  if (rope.theta <= 1.0) section.fail("rope_theta", "more than 1 with yarn");
  rope.original_max_positions =
      static_cast<double>(section.integer("original_max_position_embeddings", 1, kMaxPositions, max_positions));
  const double ratio = static_cast<double>(max_positions) / rope.original_max_positions;
  if (section.find("factor") == nullptr && ratio < 1.0) {
    section.fail("factor", "a number from 1, since max_position_embeddings is below original_max_position_embeddings");
  }
  rope.factor = section.number("factor", 1.0, 1e6, ratio);
  rope.beta_fast = section.number("beta_fast", 1e-6, 1e6, 32.0);
  rope.beta_slow = section.number("beta_slow", 1e-6, 1e6, 1.0);
  rope.truncate = section.boolean("truncate", true);
  const double mscale = section.number("mscale", 0.0, 1e3, 0.0), all = section.number("mscale_all_dim", 0.0, 1e3, 0.0);
  const double inferred = mscale > 0 && all > 0 ? yarn_scale(rope.factor, mscale) / yarn_scale(rope.factor, all)
                                                : yarn_scale(rope.factor, 1.0);
  rope.attention_factor = static_cast<float>(section.number("attention_factor", 0.0, 1e3, inferred));
}

// The host's form of GGUF files, which have the divisors that Llama 3's scaling amounts to.
void read_factors(const ConfigSection& section, int32_t head_dim, Rope& rope) {
  rope.scaling = RopeScaling::kFactors;
  const std::string expected = "a list of " + std::to_string(head_dim / 2) + " numbers from 1 to 1000000";
  const json* list = section.find("factors");
  if (list == nullptr || !list->is_array() || list->size() != static_cast<std::size_t>(head_dim / 2)) {
    section.fail("factors", expected);
  }
  for (const json& factor : *list) {
    const double value = factor.is_number() ? factor.get<double>() : 0;
    if (!(value >= 1.0 && value <= 1e6)) section.fail("factors", expected);
    rope.factors.push_back(static_cast<float>(value));
  }
}

Rope parse_rope(const ConfigSection& config, int64_t max_positions, int32_t head_dim) {
  static const json kNothing = json::object();
  const json* object = config.find("rope_parameters");
  if (object == nullptr) object = &kNothing;
  if (!object->is_object()) config.fail("rope_parameters", "an object");
  for (const auto& [key, value] : object->items()) {
    if (value.is_object()) unsupported("rope_parameters." + key + ": parameters per layer type are not supported");
  }
  const ConfigSection section(*object, "rope_parameters.");

  Rope rope;
  // Below 1 the frequencies would exceed 1, and the angles would leave the range in which the table's sine is exact.
  rope.theta = section.number("rope_theta", 1.0, 1e15, 10000.0);
  if (section.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
    unsupported("rope_parameters.partial_rotary_factor other than 1 is not defined for these models");
  }
  const std::string type = section.text("rope_type", "default");
  if (type == "default") return rope;
  constexpr const char* kServed = "default, linear, llama3, yarn";
  if (type == "dynamic" || type == "longrope") {
    unsupported("rope type '" + type + "' makes keys depend on the length of the sequence, so that equal prefixes " +
                "have different keys; supported are " + kServed);
  }
  if (type == "yarn") {
    read_yarn(section, max_positions, rope);
    return rope;
  }
  if (type == "factors") {
    read_factors(section, head_dim, rope);
    return rope;
  }
  if (type != "linear" && type != "llama3") unsupported("rope type '" + type + "' is not one of " + kServed);
  rope.factor = section.number("factor", 1.0, 1e6);
  rope.scaling = RopeScaling::kLinear;
  if (type == "linear") return rope;
  rope.scaling = RopeScaling::kLlama3;
  rope.low_freq_factor = section.number("low_freq_factor", 1e-6, 1e6);
  rope.high_freq_factor = section.number("high_freq_factor", 1e-6, 1e6);
  if (rope.high_freq_factor <= rope.low_freq_factor) section.fail("high_freq_factor", "more than low_freq_factor");
  rope.original_max_positions =
      static_cast<double>(section.integer("original_max_position_embeddings", 1, kMaxPositions, max_positions));
  return rope;
}

// As transformers: absent is 4096, null is no window. Mistral's first configurations left the key out.
int32_t window_of(const ConfigSection& config, const json& root) {
  return static_cast<int32_t>(
      config.integer("sliding_window", 1, INT32_MAX, root.contains("sliding_window") ? 0 : 4096));
}

std::vector<int32_t> windows_by_type(const ConfigSection& config, const json& types, int64_t num_layers,
                                     int32_t window) {
  std::vector<int32_t> windows(static_cast<std::size_t>(num_layers), 0);
  if (!types.is_array() || types.size() != windows.size()) {
    config.fail("layer_types",
                "a list of " + std::to_string(num_layers) + " strings, one for each of num_hidden_layers");
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const bool sliding = types[i] == "sliding_attention";
    if (!sliding && !models::is_full_attention(types[i])) {
      config.fail("layer_types", "full_attention or sliding_attention for each layer");
    }
    if (sliding && window == 0) {
      config.fail("layer_types", "no sliding_attention while use_sliding_window is false or sliding_window is null");
    }
    windows[i] = sliding ? window : 0;
  }
  return windows;
}

// Mistral and Qwen: layer_types lists the layers with a window. Without it Mistral's layers all have one, and Qwen's
// from max_window_layers on.
std::vector<int32_t> parse_windows(const ConfigSection& config, const std::string& family, const json& root,
                                   int64_t num_layers) {
  if (family == "llama") return {};
  const bool used = family == "mistral" || config.boolean("use_sliding_window", false);
  const int32_t window = used ? window_of(config, root) : 0;
  std::vector<int32_t> windows(static_cast<std::size_t>(num_layers), 0);
  if (const json* types = config.find("layer_types")) {
    windows = windows_by_type(config, *types, num_layers, window);
  } else {
    const int64_t first = family == "mistral" ? 0 : config.integer("max_window_layers", 0, INT32_MAX, 28);
    for (int64_t i = std::min(first, num_layers); i < num_layers; ++i) windows[static_cast<std::size_t>(i)] = window;
  }
  if (std::all_of(windows.begin(), windows.end(), [](int32_t one) { return one == 0; })) windows.clear();
  return windows;
}

// What transformers takes where the file has no number; null is one for each head.
int64_t absent_kv_heads(const std::string& family, const json& root, int32_t num_heads) {
  if (root.contains("num_key_value_heads")) return num_heads;
  return family == "mistral" ? 8 : family == "llama" ? num_heads : 32;
}

void parse_sizes(const ConfigSection& config, const std::string& family, const json& root, Config& out) {
  out.num_layers = config.size("num_hidden_layers", kMaxLayers);
  out.hidden_size = config.size("hidden_size", kMaxSize);
  out.intermediate_size = config.size("intermediate_size", kMaxSize);
  out.vocab_size = config.size("vocab_size", kMaxSize);
  out.max_positions = config.size("max_position_embeddings", kMaxPositions);
  out.num_heads = config.size("num_attention_heads", kMaxSize);
  out.num_kv_heads = static_cast<int32_t>(
      config.integer("num_key_value_heads", 1, out.num_heads, absent_kv_heads(family, root, out.num_heads)));
  if (out.num_heads % out.num_kv_heads != 0) {
    config.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(out.num_heads));
  }
  if (config.find("head_dim") != nullptr) {
    out.head_dim = config.size("head_dim", kMaxHeadDim);
  } else if (family == "qwen3") {
    out.head_dim = 128;
  } else {
    if (out.hidden_size % out.num_heads != 0) {
      config.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(out.hidden_size));
    }
    out.head_dim = out.hidden_size / out.num_heads;
  }
  if (out.head_dim % 2 != 0 || out.head_dim > kMaxHeadDim) {
    invalid_value("head_dim", std::to_string(out.head_dim), "an even number up to " + std::to_string(kMaxHeadDim));
  }
  const int64_t columns = int64_t{out.num_heads + 2 * out.num_kv_heads} * out.head_dim;
  if (columns > kMaxSize) {
    invalid_value("num_attention_heads", std::to_string(out.num_heads),
                  "no more than " + std::to_string(kMaxSize) + " columns of q, k and v together");
  }
}

}  // namespace

Config parse_config(std::string_view text) {
  const json root = parse_object(text);
  const ConfigSection config(root, "");
  const std::string family = models::family_of(config, {{"llama", "LlamaForCausalLM"},
                                                        {"mistral", "MistralForCausalLM"},
                                                        {"qwen2", "Qwen2ForCausalLM"},
                                                        {"qwen3", "Qwen3ForCausalLM"}});
  if (const std::string act = config.text("hidden_act", "silu"); act != "silu" && act != "swish") {
    unsupported("hidden_act '" + act + "' is not supported; expected silu");
  }

  Config out;
  parse_sizes(config, family, root, out);
  models::refuse_other_attention(config, /*has_windows=*/family != "llama", out.max_positions);
  out.norm_eps = static_cast<float>(config.number("rms_norm_eps", 1e-30, 1.0, 1e-6));
  out.checkpoint_dtype = models::checkpoint_dtype(config);
  out.quantization = models::checkpoint_quantization(config);
  out.tied_embeddings = config.boolean("tie_word_embeddings", false);
  const bool attention_bias = (family == "llama" || family == "qwen3") && config.boolean("attention_bias", false);
  out.qkv_bias = attention_bias || family == "qwen2";
  out.o_bias = attention_bias;
  out.mlp_bias = family == "llama" && config.boolean("mlp_bias", false);
  out.qk_norm = family == "qwen3";
  out.rope = parse_rope(config, out.max_positions, out.head_dim);
  out.sliding_windows = parse_windows(config, family, root, out.num_layers);
  return out;
}

}  // namespace mortise::llama
