#include "pipeline/lua_table.hpp"

#include <filesystem>

#include "error.hpp"
#include "lauxlib.h"
#include "loader/options_schema.hpp"
#include "pipeline/lua_json.hpp"
#include "pipeline/lua_sandbox.hpp"
#include "pipeline/lua_state.hpp"

namespace mortise {
namespace {

// Defines every unknown global as a plugin's constructor.
constexpr std::string_view kPartNames =
    "local known, part = _G, nil "
    "function part(name) return setmetatable({plugin = name}, {__call = function(_, options) "
    "return {plugin = name, options = options} end}) end "
    "local _ENV = setmetatable({plugin = part}, {__index = function(_, name) "
    "local value = known[name] if value == nil then value = part(name) end return value end}) ";

// The value that the chunk returns, as JSON.
nlohmann::json evaluate(const std::string& chunk, const std::string& name) {
  const ScriptLimits limits;
  const std::filesystem::path folder = std::filesystem::current_path();
  LuaState lua(limits.memory_bytes);
  nlohmann::json value;
  lua.call(limits.callback, [&](lua_State* L) {
    open_limited_libraries(L, folder);
    if (luaL_loadbufferx(L, chunk.data(), chunk.size(), ("=" + name).c_str(), "t") != LUA_OK) lua_error(L);
    lua_call(L, 0, 1);
    lua_barrier(L, [&] {
      value = to_json(L, -1);
      return 0;
    });
  });
  return value;
}

}  // namespace

nlohmann::json evaluate_table(std::string_view text, const std::string& name) {
  nlohmann::json table = evaluate("return " + std::string(text), name);
  if (!table.is_object()) fail("{}: {} is not a table of names and values, {{name = value}}", name, show_value(table));
  return table;
}

nlohmann::json evaluate_parts(std::string_view text, const std::string& name) {
  nlohmann::json list = evaluate(std::string(kPartNames) + "return " + std::string(text), name);
  if (list.is_object() && list.empty()) return nlohmann::json::array();  // {}, which could also be an empty object
  if (!list.is_array())
    fail("{}: {} is not a list of parts, {{ngram {{}}, draft_model {{path = ...}}}}", name, show_value(list));
  return list;
}

}  // namespace mortise
