// runtime/pipeline/lua_patterns.hpp: string.find, match, gmatch and gsub of pipeline scripts: the library's, on
// LuaMatcher.
#pragma once

#include "lua.h"

namespace mortise {

// Replaces the four functions in the table on top of the stack. Raises Lua errors.
void set_pattern_functions(lua_State* L);

}  // namespace mortise
