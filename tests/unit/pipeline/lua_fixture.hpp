// tests/unit/pipeline/lua_fixture.hpp: runs Lua text as a pipeline script is run, without a pipeline.
#pragma once

#include <string>

#include "lauxlib.h"
#include "pipeline/lua_json.hpp"
#include "pipeline/lua_sandbox.hpp"
#include "pipeline/lua_state.hpp"
#include "test_support.hpp"

namespace mortise::test {

inline constexpr LuaBudget kBudget{1'000'000, std::chrono::seconds(60)};

// Runs Lua text with the limited libraries and gives what it returns, as JSON.
class LuaTest : public testing::Test {
 protected:
  LuaTest() : lua_(std::size_t{64} << 20) {
    lua_.call(kBudget, [&](lua_State* L) { open_limited_libraries(L, dir_.path()); });
  }

  nlohmann::json run(const std::string& text, const LuaBudget& budget = kBudget) {
    nlohmann::json result;
    lua_.call(budget, [&](lua_State* L) {
      if (luaL_loadbufferx(L, text.data(), text.size(), "@test.lua", "t") != LUA_OK) lua_error(L);
      lua_call(L, 0, 1);
      result = to_json(L, -1);
    });
    return result;
  }
  std::string failure(const std::string& text, const LuaBudget& budget = kBudget) {
    return error_of([&] { run(text, budget); });
  }

  TempFolder dir_;
  LuaState lua_;
};

}  // namespace mortise::test
