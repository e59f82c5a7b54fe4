#include "pipeline/lua_state.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "error.hpp"
#include "lauxlib.h"

namespace mortise {
namespace {

constexpr int kHookInterval = 1000;  // instructions between two looks at the budget

int run_body(lua_State* L) {
  const auto* body = static_cast<const std::function<void(lua_State*)>*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  return lua_barrier(L, [&] {
    (*body)(L);
    return 0;
  });
}

}  // namespace

LuaState::LuaState(std::size_t max_bytes) : max_bytes_(max_bytes) {
  state_ = lua_newstate(&LuaState::allocate, this);
  if (state_ == nullptr) throw std::bad_alloc();
  LuaState* self = this;
  std::memcpy(lua_getextraspace(state_), &self, sizeof self);  // where count_hook finds it
}

LuaState::~LuaState() {
  lua_close(state_);
}

void* LuaState::allocate(void* self, void* block, std::size_t old_size, std::size_t new_size) {
  auto& state = *static_cast<LuaState*>(self);
  if (block == nullptr) old_size = 0;  // Lua passes a type there
  if (new_size == 0) {
    std::free(block);
    state.bytes_ -= old_size;
    return nullptr;
  }
  if (new_size > old_size && new_size - old_size > state.max_bytes_ - state.bytes_) return nullptr;
  void* moved = std::realloc(block, new_size);
  if (moved != nullptr) state.bytes_ += new_size - old_size;
  return moved;
}

void LuaState::count_hook(lua_State* L, lua_Debug*) {
  LuaState* self;
  std::memcpy(&self, lua_getextraspace(L), sizeof self);
  if ((self->instructions_left_ -= kHookInterval) > 0) return;
  // From here on every instruction ends in this error, so that a pcall in the script cannot go on for ever.
  lua_sethook(L, &LuaState::count_hook, LUA_MASKCOUNT, 1);
  const std::string text = fmt::format("{}: the script ran for more than {} instructions; does a loop not end?",
                                       script_location(L), self->max_instructions_);
  lua_pushlstring(L, text.data(), text.size());
  lua_error(L);
}

void LuaState::call(std::int64_t max_instructions, const std::function<void(lua_State*)>& body) {
  max_instructions_ = instructions_left_ = max_instructions;
  lua_settop(state_, 0);
  lua_sethook(state_, &LuaState::count_hook, LUA_MASKCOUNT, kHookInterval);
  lua_pushcfunction(state_, &run_body);
  lua_pushlightuserdata(state_, const_cast<void*>(static_cast<const void*>(&body)));
  const int status = lua_pcall(state_, 1, 0, 0);
  if (status == LUA_OK) return;
  std::string text = "an error without a text; call error() with one";
  if (status == LUA_ERRMEM) {
    text = fmt::format("the script needs more than {} MiB of memory", max_bytes_ >> 20);
  } else if (lua_type(state_, -1) == LUA_TSTRING) {
    text = lua_tostring(state_, -1);
  }
  lua_settop(state_, 0);
  throw Error(text);
}

std::string script_location(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0) return fmt::format("{}:{}", frame.source + 1, frame.currentline);
  }
  return "?";
}

}  // namespace mortise
