#include "checkpoint/generation_config.hpp"

#include <cfloat>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/json_file.hpp"
#include "error.hpp"
#include "json/is_there.hpp"

namespace mortise {
namespace {

using nlohmann::json;

// The range that requests allow (sampling/params.cpp), so that an unusable default is an error when the model is loaded
// and not at each request. The engine computes in float, so the float must be in range.
struct Range {
  double low, high;
  bool above_low = false;  // low itself is not allowed
};

std::optional<double> number(const json& object, const char* key, Range range, const std::string& where) {
  const json& value = member(object, key);
  if (value.is_null()) return std::nullopt;
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  // Converting a double beyond float's range is undefined behaviour. Use NaN instead: it fails the range check below.
  const double used = std::abs(number) <= FLT_MAX ? static_cast<float>(number) : std::nan("");
  if (!(used >= range.low && used <= range.high) || (range.above_low && used == range.low)) {
    fail("{}: {} is {}; expected a number {} {} to {}; correct the file", where, key, quote(value.dump()),
         range.above_low ? "above" : "from", range.low, range.high);
  }
  return number;
}

std::optional<std::int32_t> whole_number(const json& object, const char* key, std::int32_t low,
                                         const std::string& where) {
  const json& value = member(object, key);
  if (value.is_null()) return std::nullopt;
  const double number = value.is_number_integer() ? value.get<double>() : std::nan("");
  if (!(number >= low && number <= INT32_MAX)) {
    fail("{}: {} is {}; expected a whole number from {} to {}; correct the file", where, key, quote(value.dump()), low,
         INT32_MAX);
  }
  return value.get<std::int32_t>();
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
  if (is_there(path)) {
    const std::string& where = path.native();
    const json file = read_json_object(path);
    out.eos_token_ids = token_ids(file, "eos_token_id", where);
    out.bos_token_id = token_id(file, "bos_token_id", where);
    out.pad_token_id = token_id(file, "pad_token_id", where);
    out.do_sample = boolean(file, "do_sample", where);
    out.temperature = number(file, "temperature", {0, 100}, where);
    out.top_k = whole_number(file, "top_k", -1, where);  // 0 and -1: off
    out.top_p = number(file, "top_p", {0, 1, /*above_low=*/true}, where);
    out.min_p = number(file, "min_p", {0, 1}, where);
    out.repetition_penalty = number(file, "repetition_penalty", {0, FLT_MAX, /*above_low=*/true}, where);
  }
  if (out.eos_token_ids.empty()) out.eos_token_ids = config.eos_token_ids;
  if (!out.bos_token_id) out.bos_token_id = config.bos_token_id;
  return out;
}

}  // namespace mortise
