#include <nlohmann/json.hpp>
#include <sstream>

#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using nlohmann::json;
using testing::HasSubstr;

const std::string kDemo = std::string(MORTISE_SOURCE_DIR) + "/models/demo";

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(CliTokenize, TextsComeBackFromTheirIds) {
  const std::vector<json> texts = {"Once upon a time", "", "Q: 23 + 58 = ? A: 81",
                                   "\xc3\xa4\xe2\x82\xac \xf0\x9f\x99\x82", "a\nb"};
  std::string input;
  for (const json& text : texts) input += text.dump() + "\n";
  const Outcome ids = run_program(MORTISE, "tokenize " + kDemo, input);
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  ASSERT_EQ(lines_of(ids.out).size(), texts.size());
  EXPECT_TRUE(lines_of(ids.out)[0].is_array());
  const Outcome back = run_program(MORTISE, "detokenize " + kDemo, ids.out);
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(lines_of(back.out), texts);
}

TEST(CliTokenize, ABadLineIsReportedWithItsNumberAndTheRestRuns) {
  const Outcome outcome = run_program(MORTISE, "tokenize " + kDemo, "\"one\"\n{broken\n[1]\n\n\"two\"");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(lines_of(outcome.out).size(), 2u);
  EXPECT_THAT(outcome.err, HasSubstr("mortise: line 2: not JSON: parse error at line 1, column 2"));
  EXPECT_THAT(outcome.err, HasSubstr("mortise: line 3: expected a JSON string\n"));
}

TEST(CliTokenize, ALineThatIsNestedAMillionDeepIsABadLine) {
  const std::string deep(1'000'000, '[');
  for (const char* command : {"tokenize ", "detokenize "}) {
    const Outcome outcome =
        run_program(MORTISE, command + kDemo, deep + "\n" + deep + std::string(1'000'000, ']') + "\n");
    EXPECT_EQ(outcome.exit_code, 1);  // a signal: the stack ended
    EXPECT_THAT(outcome.err, HasSubstr("mortise: line 1: JSON is nested deeper than 100 levels"));
    EXPECT_THAT(outcome.err, HasSubstr("mortise: line 2: JSON is nested deeper than 100 levels"));
  }
}

TEST(CliTokenize, IdsOutsideTheVocabularyAreReported) {
  for (const char* line : {"[-1]", "[999999999]", "[1.5]", "[\"a\"]", "\"text\"", "7"}) {
    const Outcome outcome = run_program(MORTISE, "detokenize " + kDemo, std::string(line) + "\n[5]\n");
    EXPECT_EQ(outcome.exit_code, 1) << line;
    const bool is_list = line[0] == '[';
    EXPECT_THAT(outcome.err,
                HasSubstr(is_list ? "is not a token id; expected 0 to " : "expected a JSON list of token ids"));
    EXPECT_THAT(outcome.err, HasSubstr("mortise: line 1: ")) << line;
    EXPECT_EQ(lines_of(outcome.out).size(), 1u) << line;
  }
}

TEST(CliTokenize, AFolderWithoutATokenizerIsOneErrorLine) {
  const TempFolder dir;
  const Outcome outcome = run_program(MORTISE, "tokenize " + dir.path().string(), "\"x\"\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(is_error_line(outcome.err)) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace mortise
