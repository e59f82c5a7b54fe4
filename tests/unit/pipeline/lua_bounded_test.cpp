// Scripts that try to run for ever, or to take the machine's memory, where no instruction is counted. Each of these
// once ran without end, or can in the library as it is.
#include "pipeline/lua_bounded.hpp"

#include <algorithm>
#include <vector>

#include "lua_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

using LuaBoundedTest = LuaTest;

TEST_F(LuaBoundedTest, AHandlerOfXpcallCannotRunForEver) {
  // Lua's own xpcall calls the handler inside the hook that ends the script, where no other hook can end it.
  EXPECT_THAT(failure("xpcall(function() while true do end end, function() while true do end end)"),
              HasSubstr("test.lua:1: the script ran for more than 1000000 instructions"));
  EXPECT_THAT(failure("while true do xpcall(error, function() while true do end end) end"), HasSubstr("instructions"));
}

TEST_F(LuaBoundedTest, XpcallDoesWhatItDoes) {
  EXPECT_EQ(run("return { xpcall(function(a, b) return a + b, 'x' end, print, 1, 2) }"), json({true, 3, "x"}));
  EXPECT_EQ(run("return { xpcall(error, function(e) return e .. '!' end, 'oh', 0) }"), json({false, "oh!"}));
  EXPECT_THAT(failure("xpcall(error)"), HasSubstr("bad argument #2 to 'xpcall'"));
}

TEST_F(LuaBoundedTest, FinalizersOfFilesCannotBeSet) {
  write_text(dir_.path() / "a.txt", "a");
  EXPECT_EQ(run("return getmetatable(io.open('a.txt'))"), false);
  EXPECT_THAT(failure("getmetatable(io.open('a.txt')).__gc = function() while true do end end"),
              HasSubstr("attempt to index a boolean value"));
}

TEST_F(LuaBoundedTest, ClosingVariablesAreCounted) {
  EXPECT_THAT(failure("local x <close> = setmetatable({}, { __close = function() while true do end end }) error('x')"),
              HasSubstr("instructions"));
  EXPECT_THAT(failure("local x <close> = setmetatable({}, { __close = function() while true do end end })\n"
                      "while true do end"),
              HasSubstr("instructions"));
}

TEST_F(LuaBoundedTest, MetamethodsAreCounted) {
  for (const char* text : {"local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) return t[1]",
                           "local t = setmetatable({}, { __eq = function() while true do end end }) return t == {}",
                           "return tostring(setmetatable({}, { __tostring = function() while true do end end }))",
                           "return #setmetatable({}, { __len = function() while true do end end })",
                           "for k in pairs(setmetatable({}, { __pairs = function() while true do end end })) do end",
                           "return setmetatable({}, { __concat = function() while true do end end }) .. 'x'"}) {
    EXPECT_NE(failure(text), "") << text;
  }
}

TEST_F(LuaBoundedTest, LoopsInsideTheLibraryEnd) {
  EXPECT_EQ(run("return (''):rep(math.maxinteger)"), "");
  EXPECT_EQ(run("return (''):rep(math.maxinteger, '')"), "");
  EXPECT_THAT(failure("table.move({}, 1, math.maxinteger - 1, 2)"),
              HasSubstr("table.move of more than 4194304 elements"));
  EXPECT_THAT(failure("table.move({}, math.mininteger, 0, 1)"), HasSubstr("table.move of more than"));
  // Hashed keys 1, 2, 4, ..., 2^62: #t doubles its guess as long as there is a value.
  const std::string long_table =
      "local s = 'return {' for i = 0, 62 do s = s .. '[' .. (1 << i) .. ']=1,' end local t = load(s .. '}')() ";
  EXPECT_GT(run(long_table + "return #t"), std::int64_t{1} << 40);
  for (const char* call : {"table.insert(t, 1, 0)", "table.remove(t, 1)", "table.sort(t)"}) {
    EXPECT_THAT(failure(long_table + call),
                HasSubstr("the table's length is more than 4194304; give it the keys 1 to n"))
        << call;
  }
  const std::string lying_table = "local t = setmetatable({}, { __len = function() return math.maxinteger - 1 end }) ";
  for (const char* call : {"table.insert(t, 1, 0)", "table.remove(t, 1)", "table.sort(t)"}) {
    EXPECT_THAT(failure(lying_table + call), HasSubstr("a table with __len is not allowed here")) << call;
  }
}

TEST_F(LuaBoundedTest, CFunctionsThatCallCFunctionsAreCounted) {
  // Each element is an empty text from table.concat itself: no memory, no instruction of Lua.
  EXPECT_THAT(failure("table.concat(setmetatable({}, { __index = table.concat }), '', 1, math.maxinteger)"),
              HasSubstr("instructions"));
  EXPECT_THAT(failure("local s = getmetatable('') s.__index = string.lower s.__len = string.len\n"
                      "table.concat('', '', 1, math.maxinteger)"),
              HasSubstr("instructions"));
}

TEST_F(LuaBoundedTest, MemoryThatIsTakenIsWork) {
  // 50 bytes of script for each 8 MiB: a million instructions would be days.
  EXPECT_THAT(failure("while true do local s = ('x'):rep(1 << 23) end"), HasSubstr("instructions"));
  EXPECT_THAT(failure("local s = ('x'):rep(1 << 23) while true do local t = s .. 'y' end"), HasSubstr("instructions"));
}

TEST_F(LuaBoundedTest, WhatIsNotCountedEndsByTime) {
  const LuaBudget short_time{1'000'000'000, std::chrono::milliseconds(300)};
  EXPECT_THAT(failure("local a, b = ('x'):rep(1 << 23) .. 'a', ('x'):rep(1 << 23) .. 'b'\n"
                      "while true do local c = a < b end",
                      short_time),
              HasSubstr("the script ran for more than 0.3 seconds"));
  EXPECT_THAT(failure("local s = '--' .. ('x'):rep(1 << 22)\nwhile true do load(s) end", short_time),
              HasSubstr("the script ran for more than 0.3 seconds"));
  // 10^5 comparisons of a millisecond inside one table.sort.
  EXPECT_THAT(failure("local a, b, t = ('x'):rep(1 << 23) .. 'a', ('x'):rep(1 << 23) .. 'b', {}\n"
                      "for i = 1, 10000 do t[i] = i % 2 == 0 and a or b end table.sort(t)",
                      short_time),
              HasSubstr("0.3 seconds"));
}

TEST_F(LuaBoundedTest, SortsAsTheLibraryDoes) {
  EXPECT_EQ(run("local t = { 3, 1, 2 } table.sort(t) return t"), json({1, 2, 3}));
  EXPECT_EQ(run("local t = { 'b', 'c', 'a' } table.sort(t, function(a, b) return a > b end) return t"),
            json({"c", "b", "a"}));
  EXPECT_THAT(failure("table.sort({ 1, 'a' })"), HasSubstr("attempt to compare"));
  EXPECT_THAT(failure("table.sort({ 1, 2, 3 }, 4)"), HasSubstr("test.lua:1: bad argument #2 to 'sort'"));
}

TEST_F(LuaBoundedTest, TablesAreChangedAsTheLibraryDoes) {
  EXPECT_EQ(run("local t = { 1, 2 } table.insert(t, 3) table.insert(t, 1, 0) return t"), json({0, 1, 2, 3}));
  EXPECT_EQ(run("local t = { 1, 2, 3 } return { table.remove(t), table.remove(t, 1), #t }"), json({3, 1, 1}));
  EXPECT_EQ(run("return table.move({ 1, 2, 3 }, 2, 3, 1)"), json({2, 3, 3}));
  EXPECT_EQ(run("return ('ab'):rep(3, '-') .. ('x'):rep(0) .. ('x'):rep(-5)"), "ab-ab-ab");
  EXPECT_THAT(failure("table.insert(nil, 1)"), HasSubstr("test.lua:1: bad argument #1 to 'insert'"));
}

TEST_F(LuaBoundedTest, PrintIsLimited) {
  testing::internal::CaptureStderr();
  const std::string text = failure("local s = ('x'):rep(1000) while true do print(s) end");
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("test.lua:1: print: more than 1 MiB; print less"));
  EXPECT_LE(printed.size(), 1u << 20);
  EXPECT_GT(printed.size(), 1'000'000u);
  // One text that is listed a million times would be terabytes if they were put together first.
  testing::internal::CaptureStderr();
  EXPECT_THAT(failure("local s, t = ('x'):rep(1 << 18), {} for i = 1, 9000 do t[i] = s end print(table.unpack(t))"),
              HasSubstr("print: more than 1 MiB"));
  EXPECT_LE(testing::internal::GetCapturedStderr().size(), 1u << 20);
}

TEST_F(LuaBoundedTest, ErrorTextsAreCut) {
  EXPECT_LT(failure("error(('x'):rep(1 << 24))").size(), 5000u);
  EXPECT_LT(failure("load('error(\"x\")', '@' .. ('y'):rep(1 << 24))()").size(), 5000u);
}

// A few lines that say more than memory holds: each table has the one before it ten times.
TEST_F(LuaBoundedTest, TablesThatShareTablesAreCountedAsOftenAsTheyStandThere) {
  EXPECT_THAT(failure("local t = { 1 } for i = 1, 20 do t = { t, t, t, t, t, t, t, t, t, t } end return t"),
              HasSubstr("holds more than 10000 values; give fewer"));
  EXPECT_THAT(failure("local s, t = ('x'):rep(1 << 19), {} for i = 1, 5000 do t[i] = s end return t"),
              HasSubstr("holds more than 1048576 bytes of text; give less"));
  EXPECT_THAT(failure("local t = {} for i = 1, 20000 do t[i] = i end return t"), HasSubstr("more than 10000 values"));
  EXPECT_THAT(
      failure("local s = 'return {' for i = 0, 62 do s = s .. '[' .. (1 << i) .. ']=1,' end return load(s .. '}')()"),
      HasSubstr("holds a list with a hole: number 3 of its 63 values is missing"));
  EXPECT_THAT(failure("return { 1, nil, 3 }"), HasSubstr("holds a list with a hole: number 2"));
  EXPECT_EQ(run("local t = {} for i = 1, 9000 do t[i] = i end return #t"), 9000);
}

}  // namespace
}  // namespace mortise
