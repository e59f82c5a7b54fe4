#include "cli/repl/score.hpp"

#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

void expect_split(const std::string& text, const std::string& prompt, const std::string& completion) {
  const ScoreText parts = parse_score(text);
  EXPECT_EQ(parts.prompt, prompt) << text;
  EXPECT_EQ(parts.completion, completion) << text;
}

TEST(ParseScore, TheSpaceBeforeTheBarIsDroppedTheOneBehindBelongsToB) {
  expect_split("the sky is | blue", "the sky is", " blue");
  expect_split("12 + 30 =|42", "12 + 30 =", "42");
  expect_split("a  |  b ", "a ", "  b ");
  expect_split("a\nb |\nc", "a\nb", "\nc");
  expect_split("|x", "", "x");
}

TEST(ParseScore, ABackslashMakesABarText) {
  expect_split(R"(a \| b | c \| d)", "a | b", " c | d");
  expect_split("a | b | c", "a", " b | c");
  expect_split(R"(a\b | c\)", R"(a\b)", R"( c\)");
}

TEST(ParseScore, MistakesAreTold) {
  EXPECT_EQ(error_of([] { parse_score("no bar"); }),
            "/score needs two texts with a bar between them, as in: /score The sky is | blue");
  EXPECT_EQ(error_of([] { parse_score(R"(a \| b)"); }),
            "/score needs two texts with a bar between them, as in: /score The sky is | blue");
  EXPECT_EQ(error_of([] { parse_score("a |"); }), "/score: there is nothing to score after the bar");
}

class ScoreOfDemo : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::load(fs::path(MORTISE_SOURCE_DIR) / "models/demo");
};

TEST_F(ScoreOfDemo, TheRequestScoresBAlone) {
  const Request request = score_request({"The sky is", " blue"}, tokenizer_);
  const auto prompt = tokenizer_.encode("The sky is", true);
  const auto completion = tokenizer_.encode(" blue", false);
  EXPECT_EQ(request.score_from, static_cast<std::int32_t>(prompt.size()));
  EXPECT_EQ(request.prompt.size(), prompt.size() + completion.size());
  EXPECT_EQ(request.sampling.max_tokens, 0);
}

TEST_F(ScoreOfDemo, TheTableHasALineAToken) {
  const std::int32_t id = tokenizer_.encode(" the", false).front();
  const std::string table = score_table({{id, -0.5f, 1, {}}, {id, -2.25f, 12, {}}}, tokenizer_);
  EXPECT_THAT(table, HasSubstr("-0.500000       1"));
  EXPECT_THAT(table, HasSubstr("-2.250000      12"));
  EXPECT_THAT(table, HasSubstr("\" the\""));
  EXPECT_THAT(table, HasSubstr("-2.750000  sum of 2 tokens; is_greedy false"));
  EXPECT_THAT(score_table({{id, -0.5f, 1, {}}}, tokenizer_), HasSubstr("sum of 1 token; is_greedy true"));
}

}  // namespace
}  // namespace mortise
