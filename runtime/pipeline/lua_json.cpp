#include "pipeline/lua_json.hpp"

#include <cmath>
#include <string_view>

#include "error.hpp"
#include "lauxlib.h"

namespace mortise {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;  // also stops at tables that contain themselves
constexpr std::size_t kMaxValues = 10'000;
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;

// Turns a Lua value into JSON, within limits on its size. Used by the thread of the Lua state.
class Reader {
 public:
  explicit Reader(lua_State* L) : L_(L) {}

  Json value(int index, int depth) {
    if (++num_values_ > kMaxValues) fail("holds more than {} values; give fewer", kMaxValues);
    switch (lua_type(L_, index)) {
      case LUA_TNIL:
        return nullptr;
      case LUA_TBOOLEAN:
        return lua_toboolean(L_, index) != 0;
      case LUA_TNUMBER:
        return number(index);
      case LUA_TSTRING:
        return text(index);
      case LUA_TTABLE:
        return table(lua_absindex(L_, index), depth);
      default:
        fail("holds a {}; options are numbers, texts, booleans and tables of them", luaL_typename(L_, index));
    }
  }

 private:
  std::string text(int index) {
    std::size_t size = 0;
    const char* data = lua_tolstring(L_, index, &size);
    text_bytes_ += size;
    if (text_bytes_ > kMaxTextBytes) fail("holds more than {} bytes of text; give less", kMaxTextBytes);
    std::string value(data, size);
    try {
      static_cast<void>(Json(value).dump());
    } catch (const Json::exception&) {
      fail("holds a text that is not UTF-8");
    }
    return value;
  }

  Json number(int index) {
    if (lua_isinteger(L_, index)) return lua_tointeger(L_, index);
    const double number = lua_tonumber(L_, index);
    if (!std::isfinite(number)) fail("holds {}, which JSON cannot represent", number);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (number == std::floor(number) && std::fabs(number) <= kExact) return static_cast<lua_Integer>(number);
    return number;
  }

  // Visits the existing keys instead of 1 to #t: a table with the keys 1, 2, 4, ..., 2^62 has the length 2^62.
  Json table(int index, int depth) {
    if (depth >= kMaxDepth) fail("holds tables more than {} deep", kMaxDepth);
    luaL_checkstack(L_, 4, "table");
    std::size_t length = 0;
    Json object = Json::object();
    for (lua_pushnil(L_); lua_next(L_, index) != 0; lua_pop(L_, 1)) {
      if (lua_isinteger(L_, -2)) {
        if (++length > kMaxValues) fail("holds more than {} values; give fewer", kMaxValues);
        continue;
      }
      if (lua_type(L_, -2) != LUA_TSTRING) fail("holds a table with a key that is neither a text nor in 1..n");
      const std::string key = text(-2);
      object[key] = value(-1, depth + 1);
    }
    if (length == 0) return object;
    if (!object.empty()) fail("holds a table with names as well as a list");
    return list(index, length, depth);
  }

  // The table has `length` integer keys. They are 1..n exactly if none of 1..n is absent.
  Json list(int index, std::size_t length, int depth) {
    Json array = Json::array();
    for (std::size_t i = 1; i <= length; ++i) {
      const bool is_there = lua_rawgeti(L_, index, static_cast<lua_Integer>(i)) != LUA_TNIL;
      if (!is_there) fail("holds a list with a hole: number {} of its {} values is missing", i, length);
      array.push_back(value(-1, depth + 1));
      lua_pop(L_, 1);
    }
    return array;
  }

  lua_State* L_;
  std::size_t num_values_ = 0;
  std::size_t text_bytes_ = 0;
};

}  // namespace

Json to_json(lua_State* L, int index) {
  return Reader(L).value(index, 0);
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
