#include "pipeline/lua_sandbox.hpp"

#include <cstring>
#include <initializer_list>
#include <string>

#include "lauxlib.h"
#include "lualib.h"
#include "pipeline/lua_bounded.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

// load(text [, name [, mode [, env]]]): accepts neither a function as the source nor bytecode.
int load_text(lua_State* L) {
  luaL_checktype(L, 1, LUA_TSTRING);
  lua_settop(L, lua_isnone(L, 4) ? 3 : 4);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  return call_original(L);
}

int set_metatable(lua_State* L) {
  if (lua_type(L, 2) == LUA_TTABLE) {
    lua_pushliteral(L, "__gc");
    lua_rawget(L, 2);
    if (!lua_isnil(L, -1)) return luaL_error(L, "__gc is not allowed in a pipeline script");
    lua_pop(L, 1);
  }
  return call_original(L);
}

// Makes the file name at index 1 absolute. Upvalue 2 is the script's folder.
void check_file_name(lua_State* L) {
  const char* name = luaL_checkstring(L, 1);
  const auto& folder = *static_cast<const fs::path*>(lua_touserdata(L, lua_upvalueindex(2)));
  const fs::path path = folder / name;  // an absolute name is unchanged
  std::error_code error;
  const auto status = fs::status(path, error);
  // Devices and pipes can block, or never end. Lua itself reports a missing file.
  if (fs::exists(status) && !fs::is_regular_file(status)) luaL_error(L, "'%s' is not a regular file", name);
  lua_pushstring(L, path.c_str());
  lua_replace(L, 1);
}

int open_for_reading(lua_State* L) {
  const char* mode = luaL_optstring(L, 2, "r");
  if (mode[0] != 'r' || std::strchr(mode, '+') != nullptr) {
    return luaL_error(L, "'%s': a pipeline script may read files only (mode \"r\")", luaL_checkstring(L, 1));
  }
  check_file_name(L);
  return call_original(L);
}

int read_lines(lua_State* L) {
  check_file_name(L);
  return call_original(L);
}

void remove_fields(lua_State* L, std::initializer_list<const char*> names) {  // of the table on top
  for (const char* name : names) {
    lua_pushnil(L);
    lua_setfield(L, -2, name);
  }
}

// Sets the global `name` to a table with some of the library's fields.
void open_some(lua_State* L, const char* name, lua_CFunction open, std::initializer_list<const char*> fields) {
  luaL_requiref(L, name, open, 0);
  lua_newtable(L);
  for (const char* field : fields) {
    lua_getfield(L, -2, field);
    lua_setfield(L, -2, field);
  }
  lua_setglobal(L, name);
  lua_pop(L, 1);
}

// Wraps a function of io. The script's folder is upvalue 2.
void wrap_with_folder(lua_State* L, const char* name, lua_CFunction wrapper, const fs::path& folder) {
  lua_getfield(L, -1, name);
  lua_pushlightuserdata(L, const_cast<fs::path*>(&folder));
  lua_pushcclosure(L, wrapper, 2);
  lua_setfield(L, -2, name);
}

}  // namespace

void open_limited_libraries(lua_State* L, const fs::path& folder) {
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
  remove_fields(L, {"dofile", "loadfile", "collectgarbage"});
  wrap(L, "load", &load_text);
  wrap(L, "setmetatable", &set_metatable);
  bound_base_functions(L);
  lua_pop(L, 1);

  luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
  remove_fields(L, {"dump"});
  bound_string_functions(L);
  luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 1);
  bound_table_functions(L);
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 1);
  lua_pop(L, 4);

  open_some(L, LUA_OSLIBNAME, luaopen_os, {"getenv", "time", "clock", "date"});
  open_some(L, LUA_IOLIBNAME, luaopen_io, {"open", "lines"});
  lua_getglobal(L, LUA_IOLIBNAME);
  wrap_with_folder(L, "open", &open_for_reading, folder);
  wrap_with_folder(L, "lines", &read_lines, folder);
  lua_pop(L, 1);
  // With the metatable of files a script could set its __gc, so it is hidden.
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

}  // namespace mortise
