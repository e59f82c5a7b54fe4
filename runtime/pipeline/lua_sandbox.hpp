// runtime/pipeline/lua_sandbox.hpp: the part of Lua's standard library that scripts get. A script may compute and read,
// but not act: no commands, no writing, no code except its own text, nothing that escapes the limits of LuaState.
#pragma once

#include <filesystem>

#include "lua.h"

namespace mortise {

// Opens, into the globals:
//   base    without dofile, loadfile and collectgarbage; load takes text only; print writes to standard error;
//           setmetatable refuses __gc (finalizers run outside the instruction limit)
//   string  without dump; table; math; utf8; functions that could run forever are bounded (lua_bounded.hpp)
//   os      getenv, time, clock, date
//   io      open and lines, for reading regular files; relative names are resolved against `folder`
// Raises Lua errors: call it inside LuaState::call. `folder` must outlive the state.
void open_limited_libraries(lua_State* L, const std::filesystem::path& folder);

}  // namespace mortise
