#include "pipeline/lua_bounded.hpp"

#include <cstdio>

#include "lauxlib.h"
#include "pipeline/lua_state.hpp"

namespace mortise {
namespace {

// More elements than fit into a script's memory. (#t may be larger: it is 2^62 for a table with the keys 1, 2, 4, ...,
// 2^62.)
constexpr lua_Integer kMaxElements = 1 << 22;

int print_to_stderr(lua_State* L) {
  const int count = lua_gettop(L);
  for (int i = 1; i <= count; ++i) {
    std::size_t size = 0;
    const char* text = luaL_tolstring(L, i, &size);
    if (!LuaState::of(L).may_print(size + 1)) return luaL_error(L, "print: more than 1 MiB; print less");
    std::fwrite(text, 1, size, stderr);
    std::fputc(i < count ? '\t' : '\n', stderr);
    lua_pop(L, 1);
  }
  if (count == 0) std::fputc('\n', stderr);
  return 0;
}

// xpcall(f, handler, ...). Lua's own xpcall runs the handler where the error is raised. If that is the hook which ends
// a script, no hook counts the handler's instructions. So here the handler is called afterwards, like any function.
int protected_call_with_handler(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  const int num_args = lua_gettop(L) - 2;
  lua_pushvalue(L, 2);
  lua_remove(L, 2);
  lua_insert(L, 1);  // handler, f, ...
  const int status = lua_pcall(L, num_args, LUA_MULTRET, 0);
  if (status == LUA_OK) {
    lua_pushboolean(L, 1);
    lua_replace(L, 1);
    return lua_gettop(L);
  }
  lua_call(L, 1, 1);
  lua_pushboolean(L, 0);
  lua_insert(L, 1);
  return 2;
}

int repeat(lua_State* L) {
  std::size_t size = 0, separator_size = 0;
  luaL_checklstring(L, 1, &size);
  luaL_checkinteger(L, 2);
  luaL_optlstring(L, 3, "", &separator_size);
  if (size + separator_size > 0) return call_original(L);
  lua_pushliteral(L, "");
  return 1;
}

// For insert and remove, which move up to #t elements.
int with_bounded_length(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL) {
    return luaL_error(L, "a table with __len is not allowed here; use a plain table");
  }
  if (lua_rawlen(L, 1) > static_cast<lua_Unsigned>(kMaxElements)) {
    return luaL_error(L, "the table's length is more than %I; give it the keys 1 to n", kMaxElements);
  }
  return call_original(L);
}

int move(lua_State* L) {
  const lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
  const bool too_many =
      last >= first && static_cast<lua_Unsigned>(last) - static_cast<lua_Unsigned>(first) >= kMaxElements;
  if (too_many) return luaL_error(L, "table.move of more than %I elements", kMaxElements);
  return call_original(L);
}

int less_than(lua_State* L) {
  lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
  return 1;
}

// Always passes a comparison function, so that each comparison is a counted call.
int sort(lua_State* L) {
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushcfunction(L, &less_than);
    lua_replace(L, 2);
  }
  return with_bounded_length(L);
}

}  // namespace

int call_original(lua_State* L) {
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void wrap(lua_State* L, const char* name, lua_CFunction wrapper) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, wrapper, 1);
  lua_setfield(L, -2, name);
}

void bound_base_functions(lua_State* L) {
  wrap(L, "print", &print_to_stderr);
  wrap(L, "xpcall", &protected_call_with_handler);
}

void bound_string_functions(lua_State* L) {
  wrap(L, "rep", &repeat);
}

void bound_table_functions(lua_State* L) {
  wrap(L, "insert", &with_bounded_length);
  wrap(L, "remove", &with_bounded_length);
  wrap(L, "move", &move);
  wrap(L, "sort", &sort);
}

}  // namespace mortise
