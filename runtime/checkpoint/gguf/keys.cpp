#include "checkpoint/gguf/keys.hpp"

#include <cmath>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {
namespace {

std::string text_of(const GgufValue& value) {
  return std::visit(
      [](const auto& content) -> std::string {
        using T = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return quote(content);
        } else if constexpr (std::is_same_v<T, GgufArray>) {
          return fmt::format("an array with {} elements", content.size());
        } else {
          return fmt::format("{}", content);
        }
      },
      value.value);
}

bool is_utf8(std::string_view text) {
  try {
    nlohmann::json(std::string(text)).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

const GgufValue* GgufKeys::find(const std::string& key) {
  read_.insert(key);
  const auto found = file_.keys().find(key);
  return found == file_.keys().end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> GgufKeys::whole(const std::string& key, std::uint64_t max) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::uint64_t> out;
  if (const auto* number = std::get_if<std::uint64_t>(&value->value)) out = *number;
  if (const auto* number = std::get_if<std::int64_t>(&value->value); number != nullptr && *number >= 0) {
    out = static_cast<std::uint64_t>(*number);
  }
  if (!out || *out > max) refuse(key, fmt::format("expected a whole number up to {}; convert the model again", max));
  return out;
}

std::optional<double> GgufKeys::number(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  double out = std::nan("");
  if (const auto* number = std::get_if<double>(&value->value)) out = *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value->value)) out = static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value->value)) out = static_cast<double>(*number);
  if (!std::isfinite(out)) refuse(key, "expected a number; convert the model again");
  return out;
}

std::optional<bool> GgufKeys::truth(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* out = std::get_if<bool>(&value->value)) return *out;
  refuse(key, "expected true or false; convert the model again");
}

std::optional<std::string_view> GgufKeys::text(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* out = std::get_if<std::string_view>(&value->value);
  if (out == nullptr || !is_utf8(*out)) refuse(key, "expected a text in UTF-8; convert the model again");
  return *out;
}

const GgufArray* GgufKeys::array(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* out = std::get_if<GgufArray>(&value->value)) return out;
  refuse(key, "expected an array; convert the model again");
}

std::uint64_t GgufKeys::need_whole(const std::string& key, std::uint64_t max) {
  if (const auto value = whole(key, max)) return *value;
  fail("{}: has no key {}, which a model needs; convert the model again", file_.path().native(), quote(key));
}

double GgufKeys::need_number(const std::string& key) {
  if (const auto value = number(key)) return *value;
  fail("{}: has no key {}, which a model needs; convert the model again", file_.path().native(), quote(key));
}

void GgufKeys::refuse(const std::string& key, std::string_view rest) const {
  const GgufValue& value = file_.keys().find(key)->second;
  fail("{}: key {} at byte {} is {}; {}", file_.path().native(), quote(key), value.offset, text_of(value), rest);
}

void GgufKeys::refuse_unread(std::string_view prefix, std::string_view served) const {
  for (const auto& [key, value] : file_.keys()) {
    if (key.starts_with(prefix) && !read_.contains(key)) refuse(key, served);
  }
}

}  // namespace mortise
