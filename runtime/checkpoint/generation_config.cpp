#include "checkpoint/generation_config.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/json_file.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using nlohmann::json;

std::optional<double> number(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number()) fail("{}: {} is {}; expected a number", where, key, quote(value.dump()));
  return value.get<double>();
}

std::optional<std::int32_t> whole_number(const json& object, const char* key, const std::string& where) {
  const std::optional<double> value = number(object, key, where);
  if (!value) return std::nullopt;
  const double limit = std::numeric_limits<std::int32_t>::max();
  if (!member(object, key).is_number_integer() || *value < -limit || *value > limit) {
    fail("{}: {} is {}; expected a whole number", where, key, *value);
  }
  return static_cast<std::int32_t>(*value);
}

std::optional<bool> boolean(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_boolean()) fail("{}: {} is {}; expected true or false", where, key, quote(value.dump()));
  return value.get<bool>();
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& config) {
  GenerationConfig out;
  const std::filesystem::path path = folder / "generation_config.json";
  if (std::filesystem::exists(path)) {
    const std::string& where = path.native();
    const json file = read_json_object(path);
    out.eos_token_ids = token_ids(file, "eos_token_id", where);
    out.bos_token_id = token_id(file, "bos_token_id", where);
    out.pad_token_id = token_id(file, "pad_token_id", where);
    out.do_sample = boolean(file, "do_sample", where);
    out.temperature = number(file, "temperature", where);
    out.top_k = whole_number(file, "top_k", where);
    out.top_p = number(file, "top_p", where);
    out.min_p = number(file, "min_p", where);
    out.repetition_penalty = number(file, "repetition_penalty", where);
  }
  if (out.eos_token_ids.empty()) out.eos_token_ids = config.eos_token_ids;
  if (!out.bos_token_id) out.bos_token_id = config.bos_token_id;
  return out;
}

}  // namespace mortise
