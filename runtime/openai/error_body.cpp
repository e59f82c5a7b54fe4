#include "openai/error_body.hpp"

#include "openai/known_fields.hpp"

namespace mortise {
namespace {

const char* error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

// The field that the message begins with, or "".
std::string_view param_of(int status, std::string_view message) {
  if (status < 400 || status >= 500) return {};
  const std::string_view word = message.substr(0, message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
  return is_known_field(word) ? word : std::string_view();
}

}  // namespace

nlohmann::ordered_json error_body(int status, const std::string& message, const std::optional<std::string>& code) {
  const std::string_view param = param_of(status, message);
  nlohmann::ordered_json error = {
      {"message", message}, {"type", error_type(status)}, {"param", nullptr}, {"code", nullptr}};
  if (!param.empty()) error["param"] = param;
  if (code) error["code"] = *code;
  if (status == 404 && param == "model") error["code"] = "model_not_found";  // OpenAI's code
  return {{"error", std::move(error)}};
}

}  // namespace mortise
