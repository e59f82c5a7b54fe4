#include "pipeline/lua_json.hpp"

#include <cmath>
#include <string_view>

#include "error.hpp"
#include "lauxlib.h"

namespace mortise {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;  // also ends tables that hold themselves

Json value_to_json(lua_State* L, int index, int depth);

Json text_to_json(lua_State* L, int index) {
  std::size_t size = 0;
  const char* text = lua_tolstring(L, index, &size);
  Json value = std::string(text, size);
  try {
    static_cast<void>(value.dump());
  } catch (const Json::exception&) {
    fail("holds a text that is not UTF-8");
  }
  return value;
}

Json number_to_json(lua_State* L, int index) {
  if (lua_isinteger(L, index)) return lua_tointeger(L, index);
  const double number = lua_tonumber(L, index);
  if (!std::isfinite(number)) fail("holds {}, which is not a number that can be written down", number);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (number == std::floor(number) && std::fabs(number) <= kExact) return static_cast<lua_Integer>(number);
  return number;
}

Json table_to_json(lua_State* L, int index, int depth) {
  if (depth >= kMaxDepth) fail("holds tables more than {} deep", kMaxDepth);
  luaL_checkstack(L, 4, "table");
  index = lua_absindex(L, index);
  const auto length = static_cast<lua_Integer>(lua_rawlen(L, index));
  Json array = Json::array();
  for (lua_Integer i = 1; i <= length; ++i) {
    lua_rawgeti(L, index, i);
    array.push_back(value_to_json(L, -1, depth + 1));
    lua_pop(L, 1);
  }
  Json object = Json::object();
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= length) continue;
    if (lua_type(L, -2) != LUA_TSTRING) fail("holds a table with a key that is neither a text nor in 1..n");
    if (length != 0) fail("holds a table with names as well as a list");
    const std::string key = text_to_json(L, -2);
    object[key] = value_to_json(L, -1, depth + 1);
  }
  return length != 0 ? array : object;
}

Json value_to_json(lua_State* L, int index, int depth) {
  switch (lua_type(L, index)) {
    case LUA_TNIL:
      return nullptr;
    case LUA_TBOOLEAN:
      return lua_toboolean(L, index) != 0;
    case LUA_TNUMBER:
      return number_to_json(L, index);
    case LUA_TSTRING:
      return text_to_json(L, index);
    case LUA_TTABLE:
      return table_to_json(L, index, depth);
    default:
      fail("holds a {}; options are numbers, texts, booleans and tables of them", luaL_typename(L, index));
  }
}

}  // namespace

Json to_json(lua_State* L, int index) {
  return value_to_json(L, index, 0);
}

void push_json(lua_State* L, const Json& value) {
  luaL_checkstack(L, 4, "JSON");
  switch (value.type()) {
    case Json::value_t::boolean:
      lua_pushboolean(L, value.get<bool>() ? 1 : 0);
      break;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      lua_pushinteger(L, value.get<lua_Integer>());
      break;
    case Json::value_t::number_float:
      lua_pushnumber(L, value.get<double>());
      break;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      lua_pushlstring(L, text.data(), text.size());
      break;
    }
    case Json::value_t::array:
      lua_createtable(L, static_cast<int>(value.size()), 0);
      for (std::size_t i = 0; i < value.size(); ++i) {
        push_json(L, value[i]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
      }
      break;
    case Json::value_t::object:
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, child] : value.items()) {
        lua_pushlstring(L, key.data(), key.size());
        push_json(L, child);
        lua_rawset(L, -3);
      }
      break;
    default:
      lua_pushnil(L);
  }
}

}  // namespace mortise
