#include "pipeline/lua_table.hpp"

#include <gmock/gmock.h>

#include "test_support.hpp"

namespace mortise {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string table_error(std::string_view text) {
  return test::error_of([&] { evaluate_table(text, "options"); });
}

TEST(LuaTable, OptionsAreTheTableThatIsTyped) {
  EXPECT_EQ(evaluate_table("{block_size = 16, name = 'x', [\"a-b\"] = {1, 2}}", "options"),
            nlohmann::json::parse(R"({"block_size": 16, "name": "x", "a-b": [1, 2]})"));
  EXPECT_EQ(evaluate_table("{}", "options"), nlohmann::json::object());
  EXPECT_EQ(evaluate_table("{n = 2048 / 2}", "options"), (nlohmann::json{{"n", 1024}}));
}

TEST(LuaTable, WhatIsNoTableWithNamesIsRefused) {
  EXPECT_THAT(table_error("3"),
              HasSubstr("options: 3 (a whole number) is not a table of names and values, {name = value}"));
  EXPECT_THAT(table_error("{1, 2}"), HasSubstr("is not a table of names and values"));
  EXPECT_THAT(table_error(""), HasSubstr("options"));
  EXPECT_THAT(table_error("{a = "), StartsWith("options:1:"));
  EXPECT_THAT(table_error("{f = print}"), HasSubstr("options"));
}

TEST(LuaTable, WhatIsTypedCanNeitherActNorRunForEver) {
  EXPECT_NE(table_error("{x = os.execute('true')}"), "");
  EXPECT_NE(table_error("{x = io.open('/etc/passwd', 'w')}"), "");
  EXPECT_NE(table_error("(function() while true do end end)()"), "");
  EXPECT_NE(table_error("{x = string.rep('x', 1 << 40)}"), "");
}

TEST(LuaTable, PartsAreCallsOfAnyName) {
  EXPECT_EQ(
      evaluate_parts("{ngram {}, draft_model {path = '/m', max_tokens = 4}, plugin('./mine.so') {}}", "proposers"),
      nlohmann::json::parse(R"([{"plugin": "ngram", "options": {}},
                                      {"plugin": "draft_model", "options": {"path": "/m", "max_tokens": 4}},
                                      {"plugin": "./mine.so", "options": {}}])"));
  EXPECT_EQ(evaluate_parts("{}", "proposers"), nlohmann::json::array());
  EXPECT_THAT(test::error_of([] { evaluate_parts("{a = 1}", "proposers"); }), HasSubstr("is not a list of parts"));
}

}  // namespace
}  // namespace mortise
