// runtime/pipeline/lua_state.hpp: a Lua state with limits on memory, instructions and time.
//
// Errors: Lua is compiled as C++ here, so its errors are exceptions of a type of its own, which no other code may
// catch. C++ exceptions must not pass through Lua. So Lua is entered only through LuaState::call, which turns a Lua
// error into an Error, and C++ is entered from Lua only through lua_barrier, which turns a std::exception into a Lua
// error.
//
// Limits: Lua instructions are counted. An instruction that allocates memory or calls a function, including a C
// function, counts as several, because it takes longer. So a script meets the limit at the same place on every machine.
// Other long operations (comparing long texts, for instance) are bounded by the thread's CPU time. Both limits are
// checked between instructions, so neither interrupts a C function. lua_bounded.hpp keeps most library functions from
// running long within one call. The pattern functions still can; callback_thread.hpp bounds the wait for callbacks that
// use them.
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

// A Lua state. Invariant: bytes_ <= max_bytes_, and the stack is empty between two calls. Used by one thread at a time.
class LuaState {
 public:
  explicit LuaState(std::size_t max_bytes);
  ~LuaState();
  LuaState(const LuaState&) = delete;
  LuaState& operator=(const LuaState&) = delete;

  // Runs `body` in a protected call with an empty stack. Throws an Error with the text of any error.
  void call(const LuaBudget& budget, const std::function<void(lua_State*)>& body);

  // Returns the LuaState of `L`.
  static LuaState& of(lua_State* L);
  // Subtracts `instructions` from the budget, for C functions that do as much work. Raises a Lua error if the budget is
  // used up.
  void spend(std::int64_t instructions);
  // Takes bytes from the amount that a call may print. Returns false if they are too many.
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
  std::chrono::steady_clock::time_point look_at_cpu_time_;  // the CPU time cannot be used up earlier
};

// Returns "demo.lua:6": the line of the innermost running Lua function; "?" if there is none.
std::string script_location(lua_State* L);

// Runs the body of a C function. A std::exception becomes a Lua error with the same text.
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
