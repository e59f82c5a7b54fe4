#include "models/llama/config.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "mortise/plugin.hpp"

namespace mortise::llama {
namespace {

using nlohmann::json;

// Far above any model and small enough that no product of two of them overflows 64 bits, nor a row 31 bits.
constexpr int64_t kMaxSize = int64_t{1} << 22;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 24;  // positions are exact in f32

struct Family {
  const char* model_type;
  const char* architecture;
};
constexpr std::array<Family, 4> kFamilies = {{{"llama", "LlamaForCausalLM"},
                                              {"mistral", "MistralForCausalLM"},
                                              {"qwen2", "Qwen2ForCausalLM"},
                                              {"qwen3", "Qwen3ForCausalLM"}}};

[[noreturn]] void unsupported(const std::string& what) {
  throw Failure(MORTISE_UNIMPLEMENTED, "config.json", what);
}

[[noreturn]] void invalid(const std::string& key, const std::string& found, const std::string& expected) {
  constexpr std::size_t kShown = 80;  // a hostile value may be megabytes
  const std::string value = found.size() > kShown ? found.substr(0, kShown) + "..." : found;
  throw Failure(MORTISE_INVALID_ARGUMENT, "config.json", key + " is " + value + "; expected " + expected);
}

// One JSON object with its name; absent and null are the same, as they are to transformers.
class Section {
 public:
  Section(const json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  int64_t integer(const char* key, int64_t min, int64_t max) const {
    const json* value = find(key);
    const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
    if (value == nullptr) fail(key, expected);
    const bool whole = value->is_number_integer() &&
                       (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (!whole || value->get<int64_t>() < min || value->get<int64_t>() > max) fail(key, expected);
    return value->get<int64_t>();
  }
  int64_t integer(const char* key, int64_t min, int64_t max, int64_t absent) const {
    return find(key) == nullptr ? absent : integer(key, min, max);
  }

  double number(const char* key, double min, double max) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
      fail(key, "a number from " + json(min).dump() + " to " + json(max).dump());
    }
    return value->get<double>();
  }
  double number(const char* key, double min, double max, double absent) const {
    return find(key) == nullptr ? absent : number(key, min, max);
  }

  bool boolean(const char* key, bool absent) const {
    const json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) fail(key, "true or false");
    return value->get<bool>();
  }

  std::string text(const char* key, const char* absent) const {
    const json* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_string()) fail(key, "a string");
    return value->get<std::string>();
  }

  [[noreturn]] void fail(const char* key, const std::string& expected) const {
    const json* value = find(key);
    invalid(prefix_ + key, value == nullptr ? "missing" : value->dump(-1, ' ', true, json::error_handler_t::replace),
            expected);
  }

 private:
  const json& object_;
  std::string prefix_;
};

std::string names_of(const char* Family::*field) {
  std::string names;
  for (const Family& family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family.*field);
  return names;
}

// The family by model_type, which is what transformers goes by; by architecture where there is no model_type. A
// checkpoint whose architectures are all something else (a classifier, an encoder) has another head: refused.
std::string family_of(const Section& config) {
  std::vector<std::string> architectures;
  if (const json* list = config.find("architectures")) {
    if (!list->is_array()) config.fail("architectures", "a list of strings");
    for (const json& name : *list) {
      if (!name.is_string()) config.fail("architectures", "a list of strings");
      architectures.push_back(name.get<std::string>());
    }
  }
  const std::string model_type = config.text("model_type", "");
  for (const Family& family : kFamilies) {
    const bool named = std::count(architectures.begin(), architectures.end(), family.architecture) > 0;
    if (model_type.empty() ? named : model_type == family.model_type && (named || architectures.empty())) {
      return family.model_type;
    }
  }
  const std::string architecture = architectures.empty() ? "" : " (" + architectures.front() + ")";
  unsupported("model type '" + model_type + "'" + architecture + " is not one of " + names_of(&Family::model_type) +
              " with " + names_of(&Family::architecture) + "; take another model plugin");
}

Rope parse_rope(const Section& config, int64_t max_positions) {
  static const json kNothing = json::object();
  const json* object = config.find("rope_parameters");
  if (object == nullptr) object = &kNothing;
  if (!object->is_object()) config.fail("rope_parameters", "an object");
  for (const auto& [key, value] : object->items()) {
    if (value.is_object()) unsupported("rope_parameters." + key + ": parameters per layer type are not supported");
  }
  const Section section(*object, "rope_parameters.");

  Rope rope;
  // Below 1 the frequencies would exceed 1, beyond the range in which the table's sine is exact.
  rope.theta = section.number("rope_theta", 1.0, 1e15, 10000.0);
  if (section.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
    unsupported("rope_parameters.partial_rotary_factor other than 1 is not defined for these models");
  }
  const std::string type = section.text("rope_type", "default");
  if (type == "default") return rope;
  if (type == "dynamic" || type == "longrope") {
    unsupported("rope type '" + type + "' depends on the length that a sequence has grown to, so that equal prefixes " +
                "get unequal keys; supported are default, linear, llama3");
  }
  if (type != "linear" && type != "llama3") {
    unsupported("rope type '" + type + "' is not one of default, linear, llama3");
  }
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

// Qwen: which layers have the window is listed, or follows from max_window_layers: the layers from there on.
std::vector<int32_t> qwen_windows(const Section& config, int64_t num_layers) {
  const bool used = config.boolean("use_sliding_window", false);
  const auto window = static_cast<int32_t>(used ? config.integer("sliding_window", 1, INT32_MAX, 4096) : 0);
  std::vector<int32_t> windows(static_cast<std::size_t>(num_layers), 0);
  if (const json* types = config.find("layer_types")) {
    if (!types->is_array() || types->size() != windows.size()) {
      config.fail("layer_types", "a list of " + std::to_string(num_layers) + " strings, one a layer");
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const bool sliding = (*types)[i] == "sliding_attention";
      if (!sliding && (*types)[i] != "full_attention") {
        config.fail("layer_types", "full_attention or sliding_attention for each layer");
      }
      if (sliding && window == 0) config.fail("layer_types", "no sliding_attention while use_sliding_window is false");
      windows[i] = sliding ? window : 0;
    }
    return windows;
  }
  const int64_t first = config.integer("max_window_layers", 0, INT32_MAX, 28);
  for (int64_t i = std::min(first, num_layers); i < num_layers; ++i) windows[static_cast<std::size_t>(i)] = window;
  return windows;
}

std::vector<int32_t> parse_windows(const Section& config, const std::string& family, const json& root,
                                   int64_t num_layers) {
  std::vector<int32_t> windows;
  if (family == "mistral") {
    // The one key whose absence means something else than null: Mistral's first configurations left out the default.
    const int64_t absent = root.contains("sliding_window") ? 0 : 4096;
    const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, INT32_MAX, absent));
    windows.assign(static_cast<std::size_t>(num_layers), window);
  } else if (family != "llama") {
    windows = qwen_windows(config, num_layers);
  }
  if (std::all_of(windows.begin(), windows.end(), [](int32_t window) { return window == 0; })) windows.clear();
  return windows;
}

void parse_sizes(const Section& config, const std::string& family, Config& out) {
  const auto size = [&](const char* key, int64_t max) { return static_cast<int32_t>(config.integer(key, 1, max)); };
  out.num_layers = size("num_hidden_layers", kMaxLayers);
  out.hidden_size = size("hidden_size", kMaxSize);
  out.intermediate_size = size("intermediate_size", kMaxSize);
  out.vocab_size = size("vocab_size", kMaxSize);
  out.max_positions = size("max_position_embeddings", kMaxPositions);
  out.num_heads = size("num_attention_heads", kMaxSize);
  out.num_kv_heads = static_cast<int32_t>(config.integer("num_key_value_heads", 1, out.num_heads, out.num_heads));
  if (out.num_heads % out.num_kv_heads != 0) {
    config.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(out.num_heads));
  }
  if (config.find("head_dim") != nullptr) {
    out.head_dim = size("head_dim", kMaxHeadDim);
  } else if (family == "qwen3") {
    out.head_dim = 128;
  } else {
    if (out.hidden_size % out.num_heads != 0) {
      config.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(out.hidden_size));
    }
    out.head_dim = out.hidden_size / out.num_heads;
  }
  if (out.head_dim % 2 != 0 || out.head_dim > kMaxHeadDim) {
    invalid("head_dim", std::to_string(out.head_dim), "an even number up to " + std::to_string(kMaxHeadDim));
  }
  const int64_t columns = int64_t{out.num_heads + 2 * out.num_kv_heads} * out.head_dim;
  if (columns > kMaxSize) {
    invalid("num_attention_heads", std::to_string(out.num_heads),
            "no more than " + std::to_string(kMaxSize) + " columns of q, k and v together");
  }
}

int32_t parse_dtype(const Section& config) {
  const std::string dtype = config.text("dtype", "float32");
  if (dtype == "bfloat16") return MORTISE_BF16;
  if (dtype == "float16") return MORTISE_F16;
  if (dtype == "float32") return MORTISE_F32;
  unsupported("dtype '" + dtype + "' is not one of bfloat16, float16, float32");
}

// The host reads quantised checkpoints and has normalised this section: bits and group_size (0: a row) are there.
void parse_quantization(const Section& config, Config& out) {
  const json* object = config.find("quantization_config");
  if (object == nullptr) return;
  if (!object->is_object()) config.fail("quantization_config", "an object");
  const Section section(*object, "quantization_config.");
  out.quantized_bits = static_cast<int32_t>(section.integer("bits", 4, 8));
  out.quantized_group_size = static_cast<int32_t>(section.integer("group_size", 0, kMaxSize));
}

}  // namespace

Config parse_config(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) invalid("the file", "not a JSON object", "a model configuration");
  const Section config(root, "");
  const std::string family = family_of(config);
  if (const std::string act = config.text("hidden_act", "silu"); act != "silu") {
    unsupported("hidden_act '" + act + "' is not supported; expected silu");
  }

  Config out;
  parse_sizes(config, family, out);
  out.norm_eps = static_cast<float>(config.number("rms_norm_eps", 1e-30, 1.0, 1e-6));
  out.checkpoint_dtype = parse_dtype(config);
  parse_quantization(config, out);
  out.tied_embeddings = config.boolean("tie_word_embeddings", false);
  const bool attention_bias = (family == "llama" || family == "qwen3") && config.boolean("attention_bias", false);
  out.qkv_bias = attention_bias || family == "qwen2";
  out.o_bias = attention_bias;
  out.mlp_bias = family == "llama" && config.boolean("mlp_bias", false);
  out.qk_norm = family == "qwen3";
  out.rope = parse_rope(config, out.max_positions);
  out.sliding_windows = parse_windows(config, family, root, out.num_layers);
  return out;
}

}  // namespace mortise::llama
