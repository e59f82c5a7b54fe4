// What these write, Lua must read back as the same value: lua_table.hpp reads it.
#include "pipeline/lua_text.hpp"

#include <gtest/gtest.h>

#include "pipeline/lua_table.hpp"

namespace mortise {
namespace {

TEST(LuaText, QuotedTextsAreReadBackWhateverIsInThem) {
  std::string ascii;
  for (char c = 1; c < 0x7F; ++c) ascii += c;
  for (const std::string& text :
       {std::string(), std::string("plain"), std::string("a\"b\\c"), std::string("\n\r\t\0001", 5),
        std::string("]] -- \" .. os.exit() .. \""), std::string("é 中 😀"), ascii}) {
    EXPECT_EQ(evaluate_table("{text = " + lua_quoted(text) + "}", "t")["text"], text);
  }
  EXPECT_EQ(lua_quoted("a\nb"), "\"a\\010b\"");
  EXPECT_EQ(lua_quoted(std::string("\0"
                                   "7",
                                   2)),
            "\"\\0007\"");  // three digits, or the 7 would be one of the escape's
}

TEST(LuaText, ValuesAreReadBack) {
  const nlohmann::json value = {{"end", true},        {"a b", -3},         {"half", 0.5},
                                {"text", "\"x\\"},    {"list", {1, 2, 3}}, {"nested", {{"k", {{"l", "v"}}}}},
                                {"large", 1LL << 60}, {"tiny", 2.5e-308}};
  EXPECT_EQ(evaluate_table(lua_value(value), "t"), value);
}

TEST(LuaText, NullIsNil) {
  EXPECT_EQ(lua_value(nullptr), "nil");
  EXPECT_EQ(evaluate_table(lua_value({{"there", 1}, {"not", nullptr}}), "t"), (nlohmann::json{{"there", 1}}));
}

}  // namespace
}  // namespace mortise
