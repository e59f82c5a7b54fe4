#include "openai/score_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "error.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;
using ::testing::HasSubstr;

Tokenizer load(const std::string& folder) {
  return Tokenizer::load(std::filesystem::path(MORTISE_SOURCE_DIR) / folder);
}
const Tokenizer& demo() {
  static const Tokenizer tokenizer = load("models/demo");
  return tokenizer;
}

// tests/golden/scores/make_pairs.py wrote them with the harness's own code.
TEST(ScoreSplitter, SplitsTextsAsTheHarnessDoes) {
  std::ifstream file(MORTISE_SOURCE_DIR "/tests/golden/scores/pairs.json");
  const Json golden = Json::parse(file);
  ASSERT_EQ(golden.size(), 5u);
  for (const auto& [folder, pairs] : golden.items()) {
    const Tokenizer tokenizer = load(folder);
    ASSERT_GT(pairs.size(), 100u);
    for (const Json& pair : pairs) {
      ScoreSplitter splitter(pair[0], tokenizer, /*add_special_tokens=*/true);
      const ScoreTokens tokens = splitter.split(pair[1], "completions[0]");
      EXPECT_EQ(*tokens.prompt, pair[2].get<Ids>()) << folder << " " << pair;
      EXPECT_EQ(tokens.completion, pair[3].get<Ids>()) << folder << " " << pair;
    }
  }
}

TEST(ScoreSplitter, IdsAreTakenAsTheyAre) {
  const Json prompt = {5, 6};
  ScoreSplitter ids(prompt, demo(), true);
  EXPECT_EQ(*ids.split({7, 8}, "completions[0]").prompt, (Ids{5, 6}));
  EXPECT_EQ(ids.split({7, 8}, "completions[0]").completion, (Ids{7, 8}));
  EXPECT_EQ(ids.split(Json::array(), "completions[0]").completion, Ids{});
  EXPECT_EQ(ids.split(" a", "completions[0]").completion, demo().encode(" a", false));

  const Json text = "The cat ";
  ScoreSplitter mixed(text, demo(), true);
  EXPECT_EQ(*mixed.split({7}, "completions[0]").prompt,
            demo().encode("The cat ", true));  // its last space is not theirs to take
  EXPECT_EQ(*mixed.split("sat", "completions[0]").prompt, demo().encode("The cat", true));
  EXPECT_EQ(mixed.split("sat", "completions[0]").completion, demo().encode(" sat", false));
}

TEST(ScoreSplitter, CompletionsThatAgreeOnThePromptShareIt) {
  const Json prompt = "The cat";
  ScoreSplitter splitter(prompt, demo(), true);
  EXPECT_EQ(splitter.split(" sat", "completions[0]").prompt.get(),
            splitter.split(" ran", "completions[0]").prompt.get());
}

TEST(ScoreSplitter, ACompletionThatGrowsIntoThePromptIsScoredFromWhereTheyPart) {
  const Tokenizer tokenizer = load("tests/golden/tokenizer/llama3_style");
  // A text whose last token takes more of what follows, until no token of its own is left.
  const Json prompt = "th";
  ScoreSplitter splitter(prompt, tokenizer, true);
  const ScoreTokens tokens = splitter.split("e", "completions[0]");
  const Ids whole = tokenizer.encode("the", true);
  ASSERT_EQ(whole.size(), tokenizer.encode("th", true).size())
      << "another example is needed: these do not grow together";
  Ids joined = *tokens.prompt;
  joined.insert(joined.end(), tokens.completion.begin(), tokens.completion.end());
  EXPECT_EQ(joined, whole);
  EXPECT_FALSE(tokens.completion.empty());  // empty: a completion without tokens would score 0
}

TEST(ScoreSplitter, WithoutSpecialTokensNoneIsAdded) {
  const Json prompt = "The cat", spelled = "<|bos|>The cat";
  EXPECT_EQ(*ScoreSplitter(prompt, demo(), false).split(" sat", "completions[0]").prompt,
            demo().encode("The cat", false));
  EXPECT_EQ(*ScoreSplitter(spelled, demo(), true).split(" sat", "completions[0]").prompt,
            demo().encode("The cat", true));
}

TEST(ScoreSplitter, BehindAnEmptyPromptStandsTheFirstTokenWhateverItIsWrittenAs) {
  const std::int32_t first = *demo().bos_id();
  const Json ids = Json::array(), text = "";
  for (const Json* prompt : {&ids, &text}) {
    for (const bool add_special_tokens : {false, true}) {
      ScoreSplitter splitter(*prompt, demo(), add_special_tokens);
      for (const Json& completion : {Json("a"), Json(demo().encode("a", false))}) {
        const ScoreTokens tokens = splitter.split(completion, "completions[0]");
        EXPECT_EQ(*tokens.prompt, Ids{first});
        EXPECT_EQ(tokens.completion, demo().encode("a", false));
      }
      EXPECT_EQ(splitter.split({first, 7}, "completions[0]").completion, Ids{7});  // it gives it away
      EXPECT_EQ(splitter.split("<|bos|>a", "completions[0]").completion, demo().encode("a", false));
    }
  }
}

TEST(ScoreSplitter, NamesWhatIsWrong) {
  const auto refusal = [](const Json& prompt, const Json& completion) -> std::string {
    try {
      ScoreSplitter(prompt, demo(), true).split(completion, "completions[3]");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(7, "a"), "prompt: expected text or a list of token ids, got 7");
  EXPECT_EQ(refusal("a", 7), "completions[3]: expected text or a list of token ids, got 7");
  EXPECT_EQ(refusal("a", {"b"}), "completions[3]: expected token ids, got \"b\"");
  EXPECT_EQ(refusal("", "a"), "accepted");  // after <|bos|>
}

}  // namespace
}  // namespace mortise
