// runtime/pipeline/lua_text.hpp: values as the text of a Lua script.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mortise {

// The text as a Lua string in double quotes. Bytes beyond ASCII stay as they are.
std::string lua_quoted(std::string_view text);

// The value as Lua writes it; null is nil. REQUIRES: it nests no deeper than options do.
std::string lua_value(const nlohmann::json& value);

}  // namespace mortise
