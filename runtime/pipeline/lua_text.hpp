// runtime/pipeline/lua_text.hpp: writes values as Lua text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mortise {

// Returns the text as a Lua string in double quotes. Bytes beyond ASCII are unchanged.
std::string lua_quoted(std::string_view text);

// Returns the value in Lua's notation; null becomes nil. REQUIRES: it is nested no deeper than options are.
std::string lua_value(const nlohmann::json& value);

}  // namespace mortise
