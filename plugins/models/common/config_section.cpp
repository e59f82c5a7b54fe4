#include "models/common/config_section.hpp"

#include <algorithm>
#include <vector>

#include "mortise/device.h"

namespace mortise::models {

using nlohmann::json;

void unsupported(const std::string& what) {
  throw Failure(MORTISE_UNIMPLEMENTED, "config.json", what);
}

void invalid_value(const std::string& key, const std::string& found, const std::string& expected) {
  constexpr std::size_t kShown = 80;  // a hostile value may be megabytes
  const std::string value = found.size() > kShown ? found.substr(0, kShown) + "..." : found;
  throw Failure(MORTISE_INVALID_ARGUMENT, "config.json", key + " is " + value + "; expected " + expected);
}

json parse_object(std::string_view text) {
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) invalid_value("the file", "not a JSON object", "a model configuration");
  return root;
}

const json* Section::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

int64_t Section::integer(const char* key, int64_t min, int64_t max) const {
  const json* value = find(key);
  const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (value == nullptr) fail(key, expected);
  const bool whole = value->is_number_integer() &&
                     (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!whole || value->get<int64_t>() < min || value->get<int64_t>() > max) fail(key, expected);
  return value->get<int64_t>();
}

int64_t Section::integer(const char* key, int64_t min, int64_t max, int64_t absent) const {
  return find(key) == nullptr ? absent : integer(key, min, max);
}

double Section::number(const char* key, double min, double max) const {
  const json* value = find(key);
  if (value == nullptr || !value->is_number() || !(value->get<double>() >= min && value->get<double>() <= max)) {
    fail(key, "a number from " + json(min).dump() + " to " + json(max).dump());
  }
  return value->get<double>();
}

double Section::number(const char* key, double min, double max, double absent) const {
  return find(key) == nullptr ? absent : number(key, min, max);
}

bool Section::boolean(const char* key, bool absent) const {
  const json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

std::string Section::text(const char* key, const char* absent) const {
  const json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string()) fail(key, "a string");
  return value->get<std::string>();
}

void Section::fail(const char* key, const std::string& expected) const {
  const json* value = find(key);
  invalid_value(prefix_ + key,
                value == nullptr ? "missing" : value->dump(-1, ' ', true, json::error_handler_t::replace), expected);
}

std::string family_of(const Section& config, std::initializer_list<Family> families) {
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
              "; take another model plugin");
}

int32_t checkpoint_dtype(const Section& config) {
  const std::string dtype = config.text("dtype", "float32");
  if (dtype == "bfloat16") return MORTISE_BF16;
  if (dtype == "float16") return MORTISE_F16;
  if (dtype == "float32") return MORTISE_F32;
  unsupported("dtype '" + dtype + "' is not one of bfloat16, float16, float32");
}

Quantization checkpoint_quantization(const Section& config) {
  const json* object = config.find("quantization_config");
  if (object == nullptr) return {};
  if (!object->is_object()) config.fail("quantization_config", "an object");
  const Section section(*object, "quantization_config.");
  return {static_cast<int32_t>(section.integer("bits", 4, 8)),
          static_cast<int32_t>(section.integer("group_size", 0, kMaxSize))};
}

int32_t activation_of(const Section& config, const char* key, const char* absent) {
  struct Name {
    const char* name;
    int32_t activation;
  };
  // Several names of one function: transformers has an implementation for each.
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
