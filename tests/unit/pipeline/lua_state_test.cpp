// Covers: runtime/pipeline/{lua_json,lua_sandbox}
#include "pipeline/lua_state.hpp"

#include "lua_fixture.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

using LuaStateTest = LuaTest;

TEST_F(LuaStateTest, TablesBecomeJson) {
  EXPECT_EQ(run("return { a = 1, b = 2.5, c = { 1, 'x', true }, d = {}, e = 4 / 2 }"),
            json({{"a", 1}, {"b", 2.5}, {"c", {1, "x", true}}, {"d", json::object()}, {"e", 2}}));
  EXPECT_TRUE(run("return 2048 / 2").is_number_integer());  // false: block_size = 32 / 2 would be no integer
}

TEST_F(LuaStateTest, WhatJsonCannotSayIsAnError) {
  EXPECT_THAT(failure("return print"),
              HasSubstr("holds a function; options are numbers, texts, booleans and tables of them"));
  EXPECT_THAT(failure("return 1 / 0"), HasSubstr("holds inf, which JSON cannot represent"));
  EXPECT_THAT(failure("return { 1, x = 2 }"), HasSubstr("names as well as a list"));
  EXPECT_THAT(failure("return { [{}] = 2 }"), HasSubstr("neither a text nor"));
  EXPECT_THAT(failure("return '\\xff'"), HasSubstr("holds a text that is not UTF-8"));
  EXPECT_THAT(failure("local t = {} t.t = t return t"), HasSubstr("holds tables more than 32 deep"));
}

TEST_F(LuaStateTest, JsonComesBackAsItWas) {
  const json value = {{"role", "user"}, {"n", {1, 2.5, false}}, {"empty", json::object()}};
  json back;
  lua_.call(kBudget, [&](lua_State* L) {
    push_json(L, value);
    back = to_json(L, -1);
  });
  EXPECT_EQ(back, value);
}

TEST_F(LuaStateTest, ErrorsHaveFileAndLine) {
  EXPECT_EQ(failure("\nlocal x = nil\nreturn x.y"), "test.lua:3: attempt to index a nil value (local 'x')");
  EXPECT_THAT(failure("return {"), HasSubstr("test.lua:1:"));
  EXPECT_THAT(failure("error({})"), HasSubstr("without a text"));
}

TEST_F(LuaStateTest, EndlessLoopsEnd) {
  EXPECT_THAT(failure("while true do end"), HasSubstr("test.lua:1: the script ran for more than 1000000 instructions"));
  EXPECT_THAT(failure("while true do pcall(function() while true do end end) end"), HasSubstr("instructions"));
  EXPECT_EQ(run("return 1"), 1);  // the state is usable again
}

TEST_F(LuaStateTest, MemoryIsLimited) {
  const LuaBudget much{100'000'000, std::chrono::seconds(60)};
  EXPECT_THAT(failure("return #string.rep('x', 1 << 30)"), HasSubstr("memory"));
  EXPECT_THAT(failure("local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end", much),
              HasSubstr("the script needs more than 64 MiB of memory; store and build less"));
  EXPECT_EQ(run("return 1"), 1);
}

TEST_F(LuaStateTest, EndlessRecursionEnds) {
  EXPECT_NE(failure("local function f() return 1 + f() end return f()"), "");
  EXPECT_EQ(run("return 1"), 1);
}

TEST_F(LuaStateTest, NothingThatActsIsThere) {
  for (const char* name : {"dofile", "loadfile", "require", "package", "debug", "coroutine", "collectgarbage",
                           "os.execute", "os.remove", "os.exit", "os.rename", "os.tmpname", "io.popen", "io.write",
                           "io.output", "io.read", "io.tmpfile", "string.dump"}) {
    EXPECT_EQ(run(std::string("return ") + name), nullptr) << name;
  }
}

TEST_F(LuaStateTest, WhatComputesIsThere) {
  EXPECT_EQ(run("return math.max(1, 2) + #table.concat({ 'a', 'b' }) + utf8.len('ä') + #('x'):rep(3)"), 8);
  EXPECT_EQ(run("return type(os.time()) .. type(os.clock()) .. type(os.date())"), "numbernumberstring");
  const test::ScopedVariable set("MORTISE_TEST_VARIABLE", "yes");
  EXPECT_EQ(run("return os.getenv('MORTISE_TEST_VARIABLE')"), "yes");
}

TEST_F(LuaStateTest, LoadTakesTextOnly) {
  EXPECT_EQ(run("return load('return 1 + 1')()"), 2);
  EXPECT_EQ(run("return load('return x', 'chunk', 'b', { x = 5 })()"), 5);
  EXPECT_EQ(run("return select(2, load('\\27Lua'))").get<std::string>().find("attempt to load a binary chunk"), 0u);
  EXPECT_NE(failure("load(function() return nil end)"), "");
}

TEST_F(LuaStateTest, FinalizersAreRefused) {
  EXPECT_THAT(failure("setmetatable({}, { __gc = function() end })"), HasSubstr("__gc is not allowed"));
  EXPECT_EQ(run("return setmetatable({}, { __index = { x = 3 } }).x"), 3);
}

TEST_F(LuaStateTest, FilesAreReadFromTheScriptsFolderAndNotWritten) {
  write_text(dir_.path() / "names.txt", "one\ntwo\n");
  EXPECT_EQ(run("return io.open('names.txt'):read('a')"), "one\ntwo\n");
  EXPECT_EQ(run("local n = 0 for line in io.lines('names.txt', 'l') do n = n + #line end return n"), 6);
  EXPECT_EQ(run("return (io.open('missing.txt'))"), nullptr);
  for (const char* mode : {"w", "a", "r+", "w+", "rb+"}) {
    EXPECT_THAT(failure(std::string("io.open('names.txt', '") + mode + "')"), HasSubstr("read files only")) << mode;
  }
  EXPECT_THAT(failure("io.open('/dev/zero')"), HasSubstr("'/dev/zero' is not a regular file"));
  EXPECT_THAT(failure("io.lines('/dev/zero')"), HasSubstr("not a regular file"));
}

TEST_F(LuaStateTest, PrintGoesToStandardError) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  run("print('a', 1, nil)");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "a\t1\tnil\n");
}

}  // namespace
}  // namespace mortise
