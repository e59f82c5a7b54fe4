// runtime/pipeline/lua_bounded.hpp: functions of Lua's library that could run for ever, or take memory without end,
// within one call, where no instruction is counted: table.move({}, 1, math.maxinteger - 1, 2), (""):rep(1 << 60). Here
// they are as scripts get them: the same for everything that a script could mean. The pattern functions (find, match,
// gmatch, gsub) are the library's own and can backtrack for ever: callback_thread.hpp bounds the wait for those.
#pragma once

#include "lua.h"

namespace mortise {

// Replaces field `name` of the table on top by `wrapper`, which has the original C function as its upvalue 1.
void wrap(lua_State* L, const char* name, lua_CFunction wrapper);
// For a wrapper: the original in the wrapper's own frame, so that errors have the script's line and the function's
// name. REQUIRES: the original has no upvalues of its own, as the library's have none.
int call_original(lua_State* L);

// Replace functions in the table on top of the stack, which has those of the library. Raise Lua errors.
void bound_base_functions(lua_State* L);    // print (to standard error), xpcall
void bound_string_functions(lua_State* L);  // rep
void bound_table_functions(lua_State* L);   // insert, remove, move, sort

}  // namespace mortise
