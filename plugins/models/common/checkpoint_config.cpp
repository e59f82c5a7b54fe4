#include "models/common/checkpoint_config.hpp"

#include <algorithm>
#include <vector>

#include "mortise/device.h"

namespace mortise::models {

using nlohmann::json;

std::string family_of(const ConfigSection& config, std::initializer_list<Family> families) {
  std::vector<std::string> architectures;
  if (const json* list = config.find("architectures")) {
    if (!list->is_array()) config.fail("architectures", "a list of strings");
    for (const json& name : *list) {
      if (!name.is_string()) config.fail("architectures", "a list of strings");
      architectures.push_back(name.get<std::string>());
    }
  }
  const std::string model_type = config.text("model_type", "");
  std::string types, classes;
  for (const Family& family : families) {
    const bool named = std::count(architectures.begin(), architectures.end(), family.architecture) > 0;
    if (model_type.empty() ? named : model_type == family.model_type && (named || architectures.empty())) {
      return family.model_type;
    }
    types += (types.empty() ? "" : ", ") + std::string(family.model_type);
    classes += (classes.empty() ? "" : ", ") + std::string(family.architecture);
  }
  const std::string architecture = architectures.empty() ? "" : " (" + architectures.front() + ")";
  const std::string is_not = families.size() > 1 ? "is not one of " : "is not ";
  unsupported("model type '" + model_type + "'" + architecture + " " + is_not + types + " with " + classes +
              "; use another model plugin");
}

int32_t checkpoint_dtype(const ConfigSection& config) {
  const std::string dtype = config.text("dtype", "float32");
  if (dtype == "bfloat16") return MORTISE_BF16;
  if (dtype == "float16") return MORTISE_F16;
  if (dtype == "float32") return MORTISE_F32;
  unsupported("dtype '" + dtype + "' is not one of bfloat16, float16, float32");
}

static int32_t value_type_of(const std::string& type) {
  return type == "fp8"           ? MORTISE_F8_E4M3
         : type == "mxfp4"       ? MORTISE_F4_E2M1
         : type == "int-block32" ? MORTISE_I8_BLOCK32
                                 : 0;
}

Quantization checkpoint_quantization(const ConfigSection& config) {
  const json* object = config.find("quantization_config");
  if (object == nullptr) return {};
  if (!object->is_object()) config.fail("quantization_config", "an object");
  const ConfigSection section(*object, "quantization_config.");
  return {static_cast<int32_t>(section.integer("bits", 4, 8)),
          static_cast<int32_t>(section.integer("group_size", 0, kMaxSize)), value_type_of(section.text("type", "int")),
          section.text("quant_method", "") == "gguf"};
}

bool is_full_attention(const json& layer_type) {
  return layer_type == "full_attention" || layer_type == "attention";
}

void refuse_other_attention(const ConfigSection& config, bool has_windows, int64_t max_positions) {
  if (!config.boolean("is_causal", true)) {
    unsupported("is_causal false makes tokens attend to later tokens, so that nothing can be cached; expected true");
  }
  const auto refuse_below_length = [&](const char* key) {
    const int64_t length = config.integer(key, 1, INT64_MAX, max_positions);
    if (length >= max_positions) return;
    unsupported(std::string(key) + " " + std::to_string(length) + " is not defined for this family: transformers " +
                "applies it to its cache but not to a prompt; expected null, or at least max_position_embeddings " +
                std::to_string(max_positions));
  };
  refuse_below_length("attention_chunk_size");
  if (has_windows) return;
  refuse_below_length("sliding_window");
  const json* types = config.find("layer_types");
  if (types != nullptr && (!types->is_array() || !std::all_of(types->begin(), types->end(), is_full_attention))) {
    unsupported(
        "layer_types with windows or chunks are not defined for this family; expected full_attention for each " +
        std::string("layer"));
  }
}

int32_t activation_of(const ConfigSection& config, const char* key, const char* absent) {
  struct Name {
    const char* name;
    int32_t activation;
  };
  // transformers has several names for one function, and several implementations of it.
  static constexpr Name kNames[] = {{"relu", MORTISE_ACT_RELU},           {"gelu", MORTISE_ACT_GELU},
                                    {"gelu_python", MORTISE_ACT_GELU},    {"gelu_new", MORTISE_ACT_GELU_TANH},
                                    {"gelu_fast", MORTISE_ACT_GELU_TANH}, {"gelu_pytorch_tanh", MORTISE_ACT_GELU_TANH},
                                    {"silu", MORTISE_ACT_SILU},           {"swish", MORTISE_ACT_SILU}};
  const std::string wanted = config.text(key, absent);
  std::string served;
  for (const Name& entry : kNames) {
    if (wanted == entry.name) return entry.activation;
    served += (served.empty() ? "" : ", ") + std::string(entry.name);
  }
  unsupported(std::string(key) + " '" + wanted + "' is not supported; expected one of " + served);
}

}  // namespace mortise::models
