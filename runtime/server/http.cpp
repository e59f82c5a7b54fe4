#include "server/http.hpp"

#include <algorithm>

#include "openai/error_body.hpp"

namespace mortise {
namespace {

std::optional<int> hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (!high || !low) return std::nullopt;
    plain += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return plain;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto at = message.find(boost::beast::string_view(name.data(), name.size()));
  if (at == message.end()) return {};
  return {at->value().data(), at->value().size()};
}

std::string_view HttpRequest::target() const {
  return {message.target().data(), message.target().size()};
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
  return json_answer(error_body(status, message, code.empty() ? std::nullopt : std::optional(code)), status);
}

std::optional<std::string> path_of(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.starts_with(scheme)) target.remove_prefix(std::min(target.find('/', scheme.size()), target.size()));
  }
  return decoded(target.substr(0, target.find('?')));
}

std::optional<std::string> query_value(std::string_view target, std::string_view name) {
  std::size_t begin = target.find('?');
  while (begin != target.npos) {
    const std::size_t end = target.find('&', begin + 1);
    const std::string_view pair = target.substr(begin + 1, end == target.npos ? end : end - begin - 1);
    if (pair.substr(0, pair.find('=')) == name && pair.size() > name.size())
      return decoded(pair.substr(name.size() + 1));
    begin = end;
  }
  return std::nullopt;
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
