#include "jsonl/json_line.hpp"

#include <gtest/gtest.h>

#include <set>

#include "error.hpp"

namespace mortise {
namespace {

InputLine line_of(std::string text, std::size_t number = 1) {
  InputLine line;
  line.number = number;
  line.end = text.size() + 1;
  line.text = std::move(text);
  return line;
}

std::string error_of(const InputLine& line) {
  try {
    parse_json_line(line, 100);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(JsonLine, ErrorsTellTheColumn) {
  EXPECT_EQ(error_of(line_of("{\"a\": }")), "column 7: not JSON");
  EXPECT_EQ(error_of(line_of("{}{}")), "column 3: not JSON");
  EXPECT_EQ(error_of(line_of("\"\xff\"")), "column 2: not UTF-8");
  EXPECT_EQ(error_of(line_of("\"\xed\xa0\x80\"")), "column 3: not UTF-8");  // a surrogate
  EXPECT_EQ(error_of(line_of("1e999")), "a number is too large for a 64-bit float");
}

TEST(JsonLine, DepthIsBoundedAndBracketsInStringsDoNotCount) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(line_of(nested(100))), "no error");
  EXPECT_EQ(error_of(line_of(nested(101))), "column 101: JSON is nested deeper than 100 levels");
  EXPECT_EQ(error_of(line_of(nested(5'000'000))), "column 101: JSON is nested deeper than 100 levels");
  EXPECT_EQ(error_of(line_of("\"" + nested(500) + "\\\"" + nested(500) + "\"")), "no error");
  std::string wide = "[[]";
  for (int i = 0; i < 500; ++i) wide += ",[]";
  EXPECT_EQ(error_of(line_of(wide + "]")), "no error");
}

TEST(JsonLine, ALineAboveTheLimitIsAnErrorWithBothNumbers) {
  InputLine line = line_of("x");
  line.too_long = true;
  line.end = 5000;
  EXPECT_EQ(error_of(line), "the line has 5000 bytes, more than the limit of 100; split it into several");
}

TEST(LineIdentity, IsAFunctionOfNumberAndContent) {
  const LineIdentity one(line_of("{\"a\":1}", 3));
  EXPECT_EQ(one.hex, LineIdentity(line_of("{\"a\":1}", 3)).hex);
  EXPECT_EQ(one.seed, LineIdentity(line_of("{\"a\":1}", 3)).seed);
  EXPECT_NE(one.hex, LineIdentity(line_of("{\"a\":1}", 4)).hex);
  EXPECT_NE(one.hex, LineIdentity(line_of("{\"a\":2}", 3)).hex);
  EXPECT_EQ(one.hex.size(), 24u);
  // A pinned value: ids and seeds of a file must not change with the program, or a file cannot be continued.
  EXPECT_EQ(one.hex, "27db29d617c372339a06504a");
  EXPECT_EQ(one.seed, 6268299108904899491u);
}

TEST(LineIdentity, ManyLinesHaveManyIds) {
  std::set<std::string> ids;
  std::set<std::uint64_t> seeds;
  for (std::size_t i = 0; i < 10'000; ++i) {
    const LineIdentity identity(line_of("same", i));
    ids.insert(identity.hex);
    seeds.insert(identity.seed);
    EXPECT_LT(identity.seed, std::uint64_t{1} << 63);
  }
  EXPECT_EQ(ids.size(), 10'000u);
  EXPECT_EQ(seeds.size(), 10'000u);
}

TEST(LineIdentity, ALineAboveTheLimitHasOneToo) {
  InputLine line = line_of("beginning");
  line.too_long = true;
  line.end = 1000;
  const std::string first = LineIdentity(line).hex;
  line.end = 1001;
  EXPECT_NE(LineIdentity(line).hex, first);
}

TEST(DumpLine, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(dump_line({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace mortise
