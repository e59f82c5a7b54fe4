// runtime/pipeline/lua_sandbox.hpp: what of Lua's standard library a script gets. A script may compute and look, not
// act: no commands, no writing, no other code than its own text, nothing that escapes the limits of LuaState.
#pragma once

#include <filesystem>

#include "lua.h"

namespace mortise {

// Opens, into the globals:
//   base    without dofile, loadfile and collectgarbage; load takes text only; print writes to standard error;
//           setmetatable refuses __gc (finalizers run outside the instruction limit)
//   string  without dump; table; math; utf8; with what could run for ever bounded (lua_bounded.hpp)
//   os      getenv, time, clock, date
//   io      open and lines, of regular files, for reading; relative names are taken from `folder`
// Raises Lua errors: call it inside LuaState::call. `folder` must outlive the state.
void open_limited_libraries(lua_State* L, const std::filesystem::path& folder);

}  // namespace mortise
