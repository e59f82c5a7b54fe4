// runtime/pipeline/lua_json.hpp: converts Lua values to JSON and back. May raise Lua errors (out of memory), so call it
// inside a protected call.
#pragma once

#include <nlohmann/json.hpp>

#include "lua.h"

namespace mortise {

// Returns the value at `index`. A table with the keys 1..n is an array; a table with text keys, or an empty one, is an
// object. A float without a fraction becomes an integer, because 2048 / 2 is meant as one. Throws an Error for values
// that JSON does not have (functions, parts, mixed keys, holes, infinities, text that is not UTF-8), for tables nested
// deeper than 32, and for more than 10,000 values or 1 MiB of text. (Tables may share tables, so a few lines can
// describe more than memory holds.)
nlohmann::json to_json(lua_State* L, int index);

// Pushes the value; null becomes nil.
// REQUIRES: it is nested at most kMaxJsonDepth deep, like documents of parse_json.
void push_json(lua_State* L, const nlohmann::json& value);

}  // namespace mortise
