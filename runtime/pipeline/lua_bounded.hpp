// runtime/pipeline/lua_bounded.hpp: bounds functions of Lua's library that could run forever, or take unlimited memory,
// within one call, in which no instruction is counted: table.move({}, 1, math.maxinteger - 1, 2), (""):rep(1 << 60).
// Reasonable calls behave as before. The pattern functions (find, match, gmatch, gsub) are unchanged and can backtrack
// forever; callback_thread.hpp bounds the wait for them.
#pragma once

#include "lua.h"

namespace mortise {

// Replaces field `name` of the table on top by `wrapper`, which has the original C function as its upvalue 1.
void wrap(lua_State* L, const char* name, lua_CFunction wrapper);
// For a wrapper: calls the original in the wrapper's frame, so that errors have the script's line and the function's
// name.
// REQUIRES: the original has no upvalues, as is the case for the library's functions.
int call_original(lua_State* L);

// Replace functions in the table on top of the stack, which has the library's functions. Raise Lua errors.
void bound_base_functions(lua_State* L);    // print (to standard error), xpcall
void bound_string_functions(lua_State* L);  // rep
void bound_table_functions(lua_State* L);   // insert, remove, move, sort

}  // namespace mortise
