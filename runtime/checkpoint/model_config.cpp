#include "checkpoint/model_config.hpp"

#include <nlohmann/json.hpp>

#include "checkpoint/json_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using nlohmann::json;

void check_type(bool ok, const std::string& where, const char* key, const json& value, const char* expected) {
  if (!ok) fail("{}: {} is {}; expected {}", where, key, quote(value.dump()), expected);
}

// Removes `key` and returns its value; null if it was absent.
json take(json& object, const char* key) {
  json value = member(object, key);
  object.erase(key);
  return value;
}

void normalise_dtype(json& config, const std::string& where, std::string_view weights_dtype) {
  json old_spelling = take(config, "torch_dtype");
  json& dtype = config["dtype"];
  if (dtype.is_null()) dtype = std::move(old_spelling);
  if (dtype.is_null()) dtype = std::string(weights_dtype);
  check_type(dtype.is_string(), where, "dtype", dtype, "a name such as \"bfloat16\"");
}

bool is_nested_by_layer_type(const json& rope) {
  for (const json& value : rope) {
    if (value.is_object()) return true;
  }
  return false;
}

// The rules of transformers 5, RotaryEmbeddingConfigMixin. tests/golden/make_configs.py compares them with
// transformers.
void normalise_rope(json& config, const std::string& where) {
  json scaling = take(config, "rope_scaling");
  json theta = take(config, "rope_theta");
  json partial = take(config, "partial_rotary_factor");
  json rope = take(config, "rope_parameters");
  check_type(scaling.is_null() || scaling.is_object(), where, "rope_scaling", scaling, "an object or null");
  check_type(rope.is_null() || rope.is_object(), where, "rope_parameters", rope, "an object or null");
  check_type(theta.is_null() || theta.is_number(), where, "rope_theta", theta, "a number");

  if (!scaling.empty()) rope = std::move(scaling);
  if (rope.empty() && theta.is_null() && partial.is_null()) return;
  if (rope.is_null()) rope = json::object();
  if (!is_nested_by_layer_type(rope)) {
    const json old_type = take(rope, "type");
    json& type = rope["rope_type"];
    if (type.is_null()) type = old_type.is_null() ? json("default") : old_type;
    check_type(type.is_string(), where, "rope_type", type, "a name such as \"llama3\"");
    if (!theta.is_null() && !rope.contains("rope_theta")) rope["rope_theta"] = std::move(theta);
    if (!partial.is_null() && !rope.contains("partial_rotary_factor"))
      rope["partial_rotary_factor"] = std::move(partial);
    if (type == "llama3" || type == "yarn" || type == "longrope") {
      constexpr const char* kOriginal = "original_max_position_embeddings";
      if (config.contains(kOriginal)) {
        rope[kOriginal] = config[kOriginal];
      } else if (!rope.contains(kOriginal)) {
        rope[kOriginal] = member(config, "max_position_embeddings");
      }
    }
  }
  config["rope_parameters"] = std::move(rope);
}

std::optional<std::int64_t> positive(const json& config, const char* key, const std::string& where) {
  const json& value = member(config, key);
  if (value.is_null()) return std::nullopt;
  // Below 2^31, because ids and positions are 32-bit integers.
  const bool ok = value.is_number_unsigned() && value.get<std::uint64_t>() - 1 < (std::uint64_t{1} << 31) - 1;
  check_type(ok, where, key, value, "a whole number from 1 to 2147483647");
  return value.get<std::int64_t>();
}

std::vector<std::string> names(const json& config, const char* key, const std::string& where) {
  const json& value = member(config, key);
  if (value.is_null()) return {};
  check_type(value.is_array(), where, key, value, "a list of names");
  std::vector<std::string> out;
  for (const json& entry : value) {
    check_type(entry.is_string(), where, key, value, "a list of names");
    out.push_back(entry.get<std::string>());
  }
  return out;
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& folder, std::string_view weights_dtype) {
  const std::filesystem::path path = folder / "config.json";
  return make_model_config(read_json_object(path), path.native(), weights_dtype);
}

ModelConfig make_model_config(json config, const std::string& where, std::string_view weights_dtype) {
  normalise_dtype(config, where, weights_dtype);
  normalise_rope(config, where);

  ModelConfig out;
  out.quantization = normalise_quantization(config, where);
  out.architectures = names(config, "architectures", where);
  const json& type = member(config, "model_type");
  check_type(type.is_string(), where, "model_type", type, "a name such as \"llama\"");
  out.model_type = type.get<std::string>();
  out.dtype = config["dtype"].get<std::string>();
  out.vocab_size = positive(config, "vocab_size", where);
  out.max_position_embeddings = positive(config, "max_position_embeddings", where);
  out.bos_token_id = token_id(config, "bos_token_id", where);
  out.eos_token_ids = token_ids(config, "eos_token_id", where);
  out.json = config.dump();
  return out;
}

}  // namespace mortise
