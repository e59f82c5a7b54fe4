// The pattern functions of scripts against those of Lua's own library.
#include "pipeline/lua_patterns.hpp"

#include <random>

#include "lua_fixture.hpp"
#include "lualib.h"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

class LuaPatternsTest : public LuaTest {
 protected:
  // The library's functions stand beside the scripts' as the table `library`.
  LuaPatternsTest() {
    lua_.call(kBudget, [](lua_State* L) {
      lua_getglobal(L, LUA_STRLIBNAME);
      lua_pushcfunction(L, luaopen_string);
      lua_call(L, 0, 1);
      lua_setglobal(L, "library");
      lua_pushliteral(L, "");  // luaopen_string made the library's table that of s:find()
      lua_getmetatable(L, -1);
      lua_pushvalue(L, -3);
      lua_setfield(L, -2, "__index");
    });
  }
};

// Calls both with the same arguments and returns what differs, or "".
constexpr char kCompare[] = R"lua(
  local function shown(ok, ...)
    local t = { tostring(ok) }
    for i = 1, select('#', ...) do t[#t + 1] = tostring((select(i, ...))) end
    return table.concat(t, '|')
  end
  local function all(gmatch, s, p, i)
    local t = {}
    for a, b, c in gmatch(s, p, i) do t[#t + 1] = shown(a, b, c) end
    return table.concat(t, ';')
  end
  function compare(s, p, r, i, n)
    local function check(what, ours, theirs)
      if ours ~= theirs then error(('%s: %q and not %q'):format(what, ours, theirs), 0) end
    end
    check('find', shown(pcall(string.find, s, p, i)), shown(pcall(library.find, s, p, i)))
    check('plain find', shown(pcall(string.find, s, p, i, true)), shown(pcall(library.find, s, p, i, true)))
    check('match', shown(pcall(string.match, s, p, i)), shown(pcall(library.match, s, p, i)))
    check('gmatch', shown(pcall(all, string.gmatch, s, p, i)), shown(pcall(all, library.gmatch, s, p, i)))
    check('gsub', shown(pcall(string.gsub, s, p, r, n)), shown(pcall(library.gsub, s, p, r, n)))
    local function repl(a, b) return b and a .. b or (a ~= 'a' and 7) end
    check('gsub f', shown(pcall(string.gsub, s, p, repl, n)), shown(pcall(library.gsub, s, p, repl, n)))
    local t = { a = 'x', b = 1, ab = false }
    check('gsub t', shown(pcall(string.gsub, s, p, t, n)), shown(pcall(library.gsub, s, p, t, n)))
  end
)lua";

TEST_F(LuaPatternsTest, ManyPatternsMeanWhatTheLibrarySays) {
  run(kCompare);
  const std::vector<std::string> pieces = {
      "a",  "b",    "%a",  "%d", ".", "[ab]", "[^a]", "[%w_]", "[a-c]",  "[]a]",   "*",    "+", "-", "?",
      "(",  ")",    "()",  "^",  "$", "%1",   "%2",   "%b()",  "%f[%w]", "%f[^a]", "%%",   "%", "[", "]",
      "%s", "[a%]", "[a-", "%S", "x", "\\0",  "[%z]", "%b",    "%0",     "%f",     "[^]]", "[^"};
  const std::vector<std::string> letters = {"a", "b", "ab", "(", ")",   " ",   "1",
                                            "_", "a", "%",  "]", "\\0", "\\n", "\\xff"};
  const std::vector<std::string> replacements = {"", "x", "%0", "%1", "%2", "%%", "<%1%0>", "%", "%a"};
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](const std::vector<std::string>& from, std::size_t most) {
    std::string text;
    for (std::size_t n = random() % (most + 1); n > 0; --n) text += from[random() % from.size()];
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    std::string script;
    for (int i = 0; i < 20; ++i) {
      script += fmt::format("compare('{}', '{}', '{}', {}, {})\n", draw(letters, 12), draw(pieces, 6),
                            replacements[random() % replacements.size()], static_cast<int>(random() % 20) - 8,
                            random() % 5 == 0 ? "2" : "nil");
    }
    ASSERT_EQ(failure(script), "") << script;
  }
}

TEST_F(LuaPatternsTest, WhatScriptsReallyDo) {
  EXPECT_EQ(run("return ('  trim me '):match('^%s*(.-)%s*$')"), "trim me");
  EXPECT_EQ(run("return (('a,b,,c'):gsub(',', ';', 2))"), "a;b;,c");
  EXPECT_EQ(run("local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[k] = v end return t"),
            json({{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(run("return { ('key = value'):find('^(%w+)%s*=%s*(%w+)$') }"), json({1, 11, "key", "value"}));
  EXPECT_EQ(run("return ('hello'):gsub('', '-') .. ('abc'):gsub('%w', { a = '1', b = true and 'x' })"),
            "-h-e-l-l-o-1xc");
  EXPECT_EQ(run("return (('x'):rep(100000) .. ' y'):match('^%s*(.-)%s*$'):len()"), 100002);
}

TEST_F(LuaPatternsTest, APatternThatBacktracksWithoutEndEnds) {
  for (const char* text :
       {"return ('a'):rep(100):find(('.-'):rep(20) .. 'b')", "return ('a'):rep(1000):match(('a*'):rep(9) .. 'b')",
        "return ('a'):rep(10000):gsub(('a?'):rep(30) .. ('a'):rep(30) .. 'b', '')",
        "for x in ('a'):rep(100000):gmatch('a-b') do end",
        "return ('a'):rep(100000):find('a' .. ('[' .. ('b'):rep(1000) .. 'a]-'):rep(3) .. 'c')"}) {
    EXPECT_THAT(failure(text), HasSubstr("test.lua:1: the script ran for more than 1000000 instructions")) << text;
  }
}

TEST_F(LuaPatternsTest, APlainSearchTakesLinearTime) {
  // The library takes the product of both lengths, hours here.
  EXPECT_EQ(run("local s = ('a'):rep(1 << 23) return s:find(('a'):rep(1 << 22) .. 'b', 1, true)"), nullptr);
}

TEST_F(LuaPatternsTest, MalformedPatternsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"('a'):find('%')", "malformed pattern (ends with '%')"},
      {"('a'):find('[a')", "malformed pattern (missing ']')"},
      {"('a'):find('%f')", "missing '[' after '%f' in pattern"},
      {"('a'):find('%b(')", "malformed pattern (missing arguments to '%b')"},
      {"('a'):find('.)')", "invalid pattern capture"},
      {"('a'):find('(a')", "unfinished capture"},
      {"('a'):find('%1')", "invalid capture index %1"},
      {"('a'):gsub('a', '%2')", "invalid capture index %2"},
      {"('a'):gsub('a', '%x')", "invalid use of '%' in replacement string"},
      {"('a'):gsub('a', function() return {} end)", "invalid replacement value (a table)"},
      {"('a'):gsub('a', true)", "bad argument #2 to 'gsub' (string/function/table expected, got boolean)"}};
  for (const auto& [call, text] : cases) {
    EXPECT_EQ(failure(std::string("return ") + call), std::string("test.lua:1: ") + text) << call;
  }
}

TEST_F(LuaPatternsTest, DeepPatternsAreRefused) {
  EXPECT_THAT(failure("return ('a'):rep(300):match(('a?'):rep(300))"), HasSubstr("pattern too complex"));
  EXPECT_THAT(failure("return ('x'):match(('('):rep(40) .. 'x' .. (')'):rep(40))"), HasSubstr("too many captures"));
}

}  // namespace
}  // namespace mortise
