#include "json/bounded_json.hpp"

#include <algorithm>

#include "error.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxQuotedBytes = 120;  // enough to find the place in a file, and fits a line of a terminal

// ASCII only: errors go to terminals and into JSON answers, and damaged text is rarely valid UTF-8.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxQuotedBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (text.size() > kMaxQuotedBytes) out += "...";
  return out;
}

}  // namespace

std::optional<nlohmann::json> find_json(std::string_view text) {
  if (too_deep_at(text)) return std::nullopt;
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string quote(std::string_view text) {
  return fmt::format("'{}'", printable(text));
}

std::string json_error_text(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const auto tag = text.find("] ");
  return printable(tag == text.npos ? text : text.substr(tag + 2));
}

// Counts brackets outside of strings. Other syntax errors are left to the parser.
std::optional<std::size_t> too_deep_at(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return i;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

nlohmann::json parse_json(std::string_view text) {
  if (const auto at = too_deep_at(text)) {
    fail("JSON is nested deeper than {} levels, from byte {} on; flatten it", kMaxJsonDepth, *at);
  }
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    fail("not JSON: {}", json_error_text(error));
  }
}

}  // namespace mortise
