// runtime/pipeline/lua_state.hpp: a Lua state with limits on memory, instructions and time, and the one way into it.
//
// Errors: Lua is compiled as C++ here, so its errors are exceptions of its own type, which nobody else may catch. C++
// exceptions must not pass through Lua. So: Lua is entered by LuaState::call alone (Lua error -> Error), and C++ is
// entered from Lua through lua_barrier alone (std::exception -> Lua error).
//
// Limits: instructions of Lua are counted, and so is what makes one instruction long: memory that is taken, and calls,
// of C functions too. So the same script meets the limit at the same place on every machine. What is left (comparing
// long texts, say) is bounded by the time that the thread has computed. Both limits are checked between instructions:
// no limit interrupts one call of a C function. lua_bounded.hpp keeps most of the library from running long within one
// call. The pattern functions still can; callback_thread.hpp bounds the wait for a callback that calls them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "lua.h"
#include "pipeline/script_limits.hpp"

namespace mortise {

class LuaState {
 public:
  explicit LuaState(std::size_t max_bytes);
  ~LuaState();
  LuaState(const LuaState&) = delete;
  LuaState& operator=(const LuaState&) = delete;

  // Runs `body` protected, with an empty stack. Throws an Error with the text of whatever went wrong.
  void call(const LuaBudget& budget, const std::function<void(lua_State*)>& body);

  // The state that `L` belongs to.
  static LuaState& of(lua_State* L);
  // Takes work of a C function that is worth so many instructions from the budget; raises a Lua error when it is used
  // up.
  void spend(std::int64_t instructions);
  // Takes bytes from what a call may print; false: they are too many.
  bool may_print(std::size_t bytes);

 private:
  static void* allocate(void* self, void* block, std::size_t old_size, std::size_t new_size);
  static void hook(lua_State* L, lua_Debug* event);
  bool time_is_up();

  lua_State* state_ = nullptr;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;

  LuaBudget budget_{};
  std::int64_t instructions_left_ = 0;
  std::size_t printed_bytes_ = 0;
  std::chrono::nanoseconds cpu_begin_{};
  std::chrono::steady_clock::time_point look_at_cpu_time_;  // no earlier can the CPU time be up
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
