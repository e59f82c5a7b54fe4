#include "server/http.hpp"

#include <algorithm>

namespace mortise {
namespace {

std::optional<int> hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto at = message.find(boost::beast::string_view(name.data(), name.size()));
  if (at == message.end()) return {};
  return {at->value().data(), at->value().size()};
}

HttpAnswer json_answer(const nlohmann::ordered_json& body, int status) {
  return {.status = status, .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

HttpAnswer http_answer(const Answer& answer) {
  HttpAnswer http = json_answer(answer.body, answer.status);
  if (answer.retry_after_s) http.headers.emplace_back("Retry-After", std::to_string(*answer.retry_after_s));
  return http;
}

HttpAnswer error_answer(int status, const std::string& message, const std::string& code) {
  nlohmann::ordered_json error = {{"message", message}, {"type", error_type(status)}, {"param", nullptr}};
  error["code"] = code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(code);
  return json_answer({{"error", std::move(error)}}, status);
}

std::optional<std::string> path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  std::string path;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return std::nullopt;
    const auto high = hex_digit(target[i + 1]), low = hex_digit(target[i + 2]);
    if (!high || !low) return std::nullopt;
    path += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return path;
}

std::string draw_request_id() {
  return fmt::format("req-{:016x}", draw_seed());
}

std::optional<std::string> usable_request_id(std::string_view text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (text.empty() || text.size() > 128 || !printable) return std::nullopt;
  return std::string(text);
}

}  // namespace mortise
