// runtime/pipeline/lua_state.hpp: a Lua state with limits on memory and instructions, and the one way into it.
//
// Errors: Lua is compiled as C++ here, so its errors are exceptions of its own type, which nobody else may catch. C++
// exceptions must not pass through Lua. So: Lua is entered by LuaState::call alone (Lua error -> Error), and C++ is
// entered from Lua through lua_barrier alone (std::exception -> Lua error).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "lua.h"

namespace mortise {

class LuaState {
 public:
  explicit LuaState(std::size_t max_bytes);
  ~LuaState();
  LuaState(const LuaState&) = delete;
  LuaState& operator=(const LuaState&) = delete;

  // Runs `body` protected, with an empty stack, and lets what it calls run `max_instructions` of Lua. Throws an Error
  // with the text of whatever went wrong.
  void call(std::int64_t max_instructions, const std::function<void(lua_State*)>& body);

 private:
  static void* allocate(void* self, void* block, std::size_t old_size, std::size_t new_size);
  static void count_hook(lua_State* L, lua_Debug* event);

  lua_State* state_ = nullptr;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::int64_t max_instructions_ = 0;
  std::int64_t instructions_left_ = 0;
};

// "demo.lua:6": the line of the innermost Lua function that is running, "?" when there is none.
std::string script_location(lua_State* L);

// Runs the body of a C function. A std::exception becomes a Lua error with its text.
template <typename Body>
int lua_barrier(lua_State* L, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    lua_pushstring(L, error.what());
  }
  return lua_error(L);
}

}  // namespace mortise
