#include "pipeline/lua_globals.hpp"

#include "lauxlib.h"
#include "test_support.hpp"

namespace mortise {
namespace {

std::string compiled(const std::string& text) {
  lua_State* L = luaL_newstate();
  std::string chunk;
  if (luaL_loadstring(L, text.c_str()) == LUA_OK) {
    const lua_Writer append = [](lua_State*, const void* data, std::size_t size, void* to) {
      static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
      return 0;
    };
    lua_dump(L, append, &chunk, 0);
  }
  lua_close(L);
  return chunk;
}

TEST(LuaGlobals, FindsReadsAndWritesWithTheirLines) {
  const auto uses = find_globals(compiled("a = 1\nlocal l = b\nfunction f(p)\n  local q = p\n  return c, l, q.d\nend"));
  std::vector<std::string> found;
  for (const GlobalUse& use : uses) {
    found.push_back(fmt::format("{}:{}{}{}", use.line, use.name, use.written ? "=" : "", use.in_function ? " f" : ""));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre("1:a=", "2:b", "3:f=", "5:c f"));  // d, l: fields or locals count
  for (const GlobalUse& use : uses) {
    if (use.name == "c") EXPECT_THAT(use.visible, testing::UnorderedElementsAre("p", "q", "_ENV", "l"));
  }
}

TEST(LuaGlobals, LinesAreRightBehindLongGapsAndManyInstructions) {
  std::string text = "local t = {}\n";
  for (int i = 0; i < 300; ++i) text += "t[1] = t\n";  // the compiler notes absolute lines in between
  text += std::string(400, '\n') + "x()";
  EXPECT_EQ(find_globals(compiled(text)).back().line, 702);
}

TEST(LuaGlobals, WhatIsCutOrDamagedIsRefused) {
  const std::string chunk = compiled("function f() return x end");
  for (std::size_t size = 0; size < chunk.size(); ++size) {
    EXPECT_EQ(test::error_of([&] { find_globals(chunk.substr(0, size)); }),
              "a compiled script is not of the form of Lua 5.4");
  }
  for (std::size_t at = 0; at < chunk.size(); ++at) {  // none may read beyond the end
    std::string damaged = chunk;
    damaged[at] = static_cast<char>(~damaged[at]);
    test::error_of([&] { find_globals(damaged); });
  }
}

}  // namespace
}  // namespace mortise
