// runtime/pipeline/lua_json.hpp: Lua values as JSON and back. May raise Lua errors (no memory): call it inside a
// protected call.
#pragma once

#include <nlohmann/json.hpp>

#include "lua.h"

namespace mortise {

// The value at `index`. A table with the keys 1..n is an array, one with text keys an object, an empty one an object; a
// float without a fraction becomes an integer, as 2048 / 2 is meant as one. Throws an Error for what JSON cannot say
// (functions, parts, mixed keys, holes, infinities, text that is not UTF-8, tables that are deeper than 32), and for
// more than 10,000 values or 1 MiB of text: tables may share tables, so that a few lines can say more than memory
// holds.
nlohmann::json to_json(lua_State* L, int index);

// Pushes the value; null is nil. REQUIRES: it nests no deeper than kMaxJsonDepth (parse_json's documents do not).
void push_json(lua_State* L, const nlohmann::json& value);

}  // namespace mortise
