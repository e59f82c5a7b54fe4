#include "pipeline/lua_table.hpp"

#include <filesystem>

#include "error.hpp"
#include "lauxlib.h"
#include "loader/options_schema.hpp"
#include "pipeline/lua_json.hpp"
#include "pipeline/lua_sandbox.hpp"
#include "pipeline/lua_state.hpp"

namespace mortise {

nlohmann::json evaluate_table(std::string_view text, const std::string& name) {
  const ScriptLimits limits;
  const std::filesystem::path folder = std::filesystem::current_path();
  LuaState lua(limits.memory_bytes);
  nlohmann::json table;
  lua.call(limits.callback, [&](lua_State* L) {
    open_limited_libraries(L, folder);
    const std::string chunk = "return " + std::string(text);
    if (luaL_loadbufferx(L, chunk.data(), chunk.size(), ("=" + name).c_str(), "t") != LUA_OK) lua_error(L);
    lua_call(L, 0, 1);
    lua_barrier(L, [&] {
      table = to_json(L, -1);
      return 0;
    });
  });
  if (!table.is_object()) fail("{}: {} is no table of names and values, {{name = value}}", name, show_value(table));
  return table;
}

}  // namespace mortise
