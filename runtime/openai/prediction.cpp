#include "openai/prediction.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "error.hpp"
#include "tokenizer/incremental_decoder.hpp"

namespace mortise {
namespace {

const nlohmann::json& require(const Body& fields, const std::string& where, const char* name) {
  const nlohmann::json* const value = fields.find(name);
  if (value == nullptr) fail("{}.{} is missing", where, name);
  return *value;
}

std::string require_string(const Body& fields, const std::string& where, const char* name) {
  const nlohmann::json& value = require(fields, where, name);
  if (!value.is_string()) fail_type(where + "." + name, "a string", value);
  return value.get<std::string>();
}

std::string read_content(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  constexpr const char* kExpected = "a text or a list of parts of type text";
  if (!json.is_array()) fail_type("prediction.content", kExpected, json);
  std::string text;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string where = fmt::format("prediction.content[{}]", i);
    const Body fields(json[i], where.c_str());
    if (require_string(fields, where, "type") != "text") fail_type(where, "type \"text\"", json[i]);
    text += require_string(fields, where, "text");
  }
  return text;
}

// Splits the text together with the end of the prompt, because a token may span both, and some tokenizers put a space
// in front of any text. If a token does span both, the text is split alone.
std::vector<std::int32_t> tokens_behind(const std::vector<std::int32_t>& prompt, const std::string& text,
                                        const Tokenizer& tokenizer) {
  const std::string context = decode_prefix(tokenizer, /*skip_special_tokens=*/false, prompt).text;
  const std::vector<std::int32_t> before = tokenizer.encode(context, /*add_special_tokens=*/false);
  std::vector<std::int32_t> both = tokenizer.encode(context + text, /*add_special_tokens=*/false);
  if (both.size() < before.size() || !std::equal(before.begin(), before.end(), both.begin())) {
    return tokenizer.encode(text, /*add_special_tokens=*/false);
  }
  both.erase(both.begin(), both.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return both;
}

}  // namespace

void read_prediction(const Body& body, const Tokenizer& tokenizer, std::span<Request> requests) {
  const nlohmann::json* const json = body.find("prediction");
  if (json == nullptr) return;
  const Body fields(*json, "prediction");
  const std::string type = require_string(fields, "prediction", "type");
  if (type != "content" && type != "tokens") fail("prediction.type is '{}'; it must be 'content' or 'tokens'", type);
  if (requests.size() > 1) {
    fail(
        "prediction: it is the expected answer to one prompt, but prompt is a list of {}; send each prompt in its own "
        "body",
        requests.size());
  }
  for (Request& request : requests) {
    request.prediction =
        type == "tokens"
            ? read_token_ids(require(fields, "prediction", "token_ids"), "prediction.token_ids")
            : tokens_behind(request.prompt, read_content(require(fields, "prediction", "content")), tokenizer);
  }
}

void read_resumed_tokens(const Body& body, bool resumes, std::span<Request> requests) {
  const nlohmann::json* const ids = body.find("resume_token_ids");
  if (ids == nullptr) return;
  if (!resumes) {
    fail(
        "resume_token_ids are the tokens of a broken stream: they need stream and the header Last-Event-ID; use "
        "prediction for an expected answer");
  }
  if (requests.size() > 1 || requests.front().sampling.n > 1) {
    fail("resume_token_ids: it holds the tokens of one choice, but the body asks for several choices; leave it out");
  }
  requests.front().prediction = read_token_ids(*ids, "resume_token_ids");
  requests.front().resumed = true;
}

}  // namespace mortise
