#include "pipeline/lua_text.hpp"

#include <fmt/format.h>

#include <iterator>

namespace mortise {

std::string lua_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || c == '"' || c == '\\') {
      fmt::format_to(std::back_inserter(out), "\\{:03}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string lua_value(const nlohmann::json& value) {
  if (value.is_string()) return lua_quoted(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value.is_null() ? "nil" : value.dump();
  std::string out = "{";
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) out += fmt::format("[{}] = ", lua_quoted(key));
    out += lua_value(member) + ", ";
  }
  return out + "}";
}

}  // namespace mortise
