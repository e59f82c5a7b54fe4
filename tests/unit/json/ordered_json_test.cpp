#include "json/ordered_json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "json/bounded_json.hpp"

namespace mortise {
namespace {

std::string parsed(std::string_view text) {
  const auto json = find_ordered_json(text);
  return json ? json->dump() : "none";
}

TEST(OrderedJson, KeysKeepTheirOrder) {
  for (const char* text :
       {R"({"b":1,"a":{"d":[1,-2,2.5,null,true,{"x":"y"}],"c":{}},"":[]})", "5", R"("text")", "[]"}) {
    EXPECT_EQ(parsed(text), text);
  }
}

TEST(OrderedJson, OfEqualKeysTheLastValueCounts) {
  EXPECT_EQ(parsed(R"({"b":1,"a":2,"b":{"c":3},"a":4,"b":5})"), R"({"b":5,"a":4})");
}

TEST(OrderedJson, WhatIsNoJsonOrTooDeepIsNothing) {
  for (const char* text : {"", "{", R"({"a" 1})", "[1,]", "{} x", "1e999"}) EXPECT_EQ(parsed(text), "none") << text;
  EXPECT_EQ(parsed(std::string(kMaxJsonDepth + 1, '[') + std::string(kMaxJsonDepth + 1, ']')), "none");
}

TEST(OrderedJson, ManyKeysTakeNoSquareOfTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("{}\"key{}\":{}", i == 0 ? "" : ",", i, i);
  text += "}";
  EXPECT_EQ(find_ordered_json(text)->size(), 300'000u);  // comparing all pairs of keys would take minutes
}

}  // namespace
}  // namespace mortise
