#include "sampling/choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include "error.hpp"
#include "variables.hpp"

namespace mortise {
namespace {

using Ids = std::vector<std::int32_t>;
using ::testing::HasSubstr;

struct Fixture {
  explicit Fixture(const char* folder) : Fixture(Tokenizer::load(std::string(MORTISE_SOURCE_DIR) + folder)) {}
  explicit Fixture(Tokenizer loaded) : tokenizer(std::move(loaded)) {
    vocab_size = static_cast<std::int32_t>(tokenizer.vocab_size());
    prompt = tokenizer.encode("a question:", false);
  }
  ChoiceTrie make() const {
    const DecodedPrefix before = decode_prefix(tokenizer, params.skip_special_tokens, prompt);
    return make_choice_guide(params, {tokenizer, before, ends, vocab_size, max_tokens}).trie;
  }
  std::string refusal() const {
    try {
      make();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  Tokenizer tokenizer;
  SamplingParams params;
  Ids prompt, ends{1};
  std::int32_t vocab_size, max_tokens = 100;
};

constexpr char kByteLevel[] = "/models/demo", kSentencePiece[] = "/tests/golden/tokenizer/llama2_style";

// All texts that the trie lets through, by trying every allowed token; sorted.
std::vector<std::string> texts(const Fixture& fixture) {
  const ChoiceTrie trie = fixture.make();
  const std::string before = fixture.tokenizer.decode(fixture.prompt, true);
  std::vector<std::string> found;
  Ids ids = fixture.prompt;
  const std::function<void(ChoiceTrie::Node)> visit = [&](ChoiceTrie::Node node) {
    std::vector<std::uint32_t> mask((static_cast<std::size_t>(fixture.vocab_size) + 31) / 32);
    trie.allow(node, mask);
    bool ends = trie.is_complete(node);
    for (std::int32_t token = 0; token < fixture.vocab_size; ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1u) == 0) continue;
      ends |= std::count(fixture.ends.begin(), fixture.ends.end(), token) > 0;
      if (trie.next(node, token) == ChoiceTrie::kNone) continue;
      ids.push_back(token);
      visit(trie.next(node, token));
      ids.pop_back();
    }
    if (ends) found.push_back(fixture.tokenizer.decode(ids, true).substr(before.size()));
  };
  visit(ChoiceTrie::kRoot);
  std::sort(found.begin(), found.end());
  return found;
}

TEST(MakeChoiceTrie, TheTextBehindThePromptIsTheChoiceToTheByte) {
  std::vector<std::string> choices = {"yes",  " yes", "  yes", "yes ",  "yes yes", "no\n", "\n\nno", "Zürich", "你好",
                                      "🦀", "a",    "a b",   "a b c", "\tx",     "1234", "12",     "e\u0301"};
  std::sort(choices.begin(), choices.end());
  for (const char* folder : {kByteLevel, kSentencePiece}) {
    Fixture fixture(folder);
    fixture.params.choices.assign(choices.begin(), choices.end());
    EXPECT_EQ(texts(fixture), choices);
    fixture.params.choices.insert(fixture.params.choices.end(), choices.begin(), choices.end());
    EXPECT_EQ(texts(fixture), choices) << "duplicates";
    // A line break at the end of the prompt is a byte token in the SentencePiece vocabulary, which the decoder holds
    // back; what follows is the choice alone all the same.
    fixture.prompt = fixture.tokenizer.encode("a question:\n", false);
    EXPECT_EQ(texts(fixture), choices);
  }
}

// Vocabularies as published; they are too large to be committed (../shared/data/README.md says where they are from).
TEST(MakeChoiceTrie, TheTextIsTheChoiceWithRealVocabularies) {
  const std::filesystem::path data = test::variable("MORTISE_TEST_DATA").value_or(MORTISE_SOURCE_DIR "/../shared/data");
  if (!std::filesystem::exists(data / "tokenizers")) {
    GTEST_SKIP() << data << " has no tokenizers; MORTISE_TEST_DATA names the folder";
  }
  std::vector<std::string> choices = {"yes",  " yes", "Yes, of course.", "no\n", "\n\nno", "Zürich", "你好，世界",
                                      "🦀", "1234"};
  std::sort(choices.begin(), choices.end());
  for (const char* name : {"gpt-2", "qwen2", "phi-3"}) {
    Fixture fixture(Tokenizer::load(data / "tokenizers" / name));
    fixture.ends = {fixture.vocab_size - 1};
    fixture.params.choices.assign(choices.begin(), choices.end());
    for (const char* prompt : {"Answer:", "Answer: ", "Answer:\n", "答え：你", "<s>"}) {
      fixture.prompt = fixture.tokenizer.encode(prompt, false);
      EXPECT_EQ(texts(fixture), choices) << name << ", after \"" << prompt << '"';
    }
  }
}

TEST(MakeChoiceTrie, ATextThatBeginsWithTheChoiceLosesNoSpace) {
  Fixture fixture(kSentencePiece);
  fixture.prompt = {1};  // <s>: the decoder takes the first space off
  fixture.params.choices = {" yes", "yes"};
  EXPECT_EQ(texts(fixture), (std::vector<std::string>{" yes", "yes"}));
}

TEST(MakeChoiceTrie, TenThousandChoices) {
  Fixture fixture(kByteLevel);
  std::vector<std::string> sorted;
  for (int i = 0; i < 10000; ++i) sorted.push_back(std::to_string(i));
  fixture.params.choices.assign(sorted.begin(), sorted.end());
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(texts(fixture), sorted);
}

TEST(MakeChoiceTrie, TokenIdsAreTakenAsTheyAre) {
  Fixture fixture(kByteLevel);
  const Ids odd = {68, 69};  // a, b: the tokenizer would make one token of them
  ASSERT_EQ(fixture.tokenizer.decode(odd, true), "ab");
  ASSERT_EQ(fixture.tokenizer.encode("ab", false).size(), 1u);
  fixture.params.choices = {odd, "cd", odd};
  EXPECT_EQ(texts(fixture), (std::vector<std::string>{"ab", "cd"}));
  const ChoiceTrie trie = fixture.make();
  EXPECT_TRUE(trie.is_complete(trie.next(trie.next(ChoiceTrie::kRoot, 68), 69)));

  fixture.params.choices = {Ids{68, 4096}};
  EXPECT_EQ(fixture.refusal(),
            "choices[0]: [68, 4096] has token id 4096, but this model's ids are from 0 to 4095; leave it out");
  fixture.params.choices = {"x", Ids{68, -1}};
  EXPECT_THAT(fixture.refusal(), HasSubstr("choices[1]: [68, -1] has token id -1, but"));
  fixture.params.choices = {Ids(20, 68), Ids{68, 1}};
  EXPECT_THAT(fixture.refusal(), HasSubstr("choices[1]: [68, 1] has token id 1, which ends an answer"));
  fixture.max_tokens = 3;
  EXPECT_THAT(fixture.refusal(),
              HasSubstr("choices[0]: [68, 68, 68, 68, 68, 68, 68, 68, ...] needs 20 tokens, but only 3 "));
  fixture.params.choices = {odd};
  fixture.params.stop = {"b"};
  EXPECT_THAT(fixture.refusal(), HasSubstr("choices[0]: [68, 69] contains the stop string \"b\""));
}

// The tokens that a score of the same two texts has, as far as the prompt's tokens allow it.
TEST(ChoiceTokens, AreThoseOfPromptAndChoiceTogether) {
  Fixture fixture(kByteLevel);
  const std::vector<std::string> prompts = {"a question:", "Question: where?\nAnswer:", "It is 12", "Z\u00fcrich is"};
  for (const std::string& text : prompts) {
    fixture.prompt = fixture.tokenizer.encode(text, false);
    for (const char* choice : {" yes", "yes", "\nyes", " 4", "4", "'s"}) {
      fixture.params.choices = {choice};
      const DecodedPrefix before = decode_prefix(fixture.tokenizer, true, fixture.prompt);
      const Ids ids =
          make_choice_guide(fixture.params, {fixture.tokenizer, before, fixture.ends, 4096, 100}).tokens.front();
      Ids whole = fixture.tokenizer.encode(text + choice, false);
      const auto begin = static_cast<std::ptrdiff_t>(fixture.prompt.size());
      const bool apart = std::equal(fixture.prompt.begin(), fixture.prompt.end(), whole.begin());
      const Ids expected = apart ? Ids(whole.begin() + begin, whole.end()) : fixture.tokenizer.encode(choice, false);
      EXPECT_EQ(ids, expected) << text << choice;
    }
  }
}

TEST(MakeChoiceTrie, SpecialTokensAreTextWhenTheyAreNotSkipped) {
  Fixture fixture(kByteLevel);
  fixture.params.choices = {"a<|im_end|>"};
  EXPECT_THAT(fixture.refusal(), HasSubstr("choices[0]: \"a<|im_end|>\" cannot be generated: after this prompt, this "
                                           "model's tokenizer turns it into \"a\""));
  fixture.params.skip_special_tokens = false;
  EXPECT_EQ(fixture.refusal(), "accepted");
}

TEST(MakeChoiceTrie, RefusesWhatItsTokenizerCannotSay) {
  // NFC makes one character of two.
  Fixture fixture("/tests/golden/tokenizer/qwen_style");
  fixture.params.choices = {"ok", "e\u0301t\u0301 and a text that is longer than a message shows"};
  EXPECT_THAT(fixture.refusal(),
              HasSubstr("choices[1]: \"e\u0301t\u0301 and a text that is longer than a ...\" cannot "
                        "be generated: after this prompt, this model's tokenizer turns it into \"\u00e9t"));
}

TEST(MakeChoiceTrie, RefusesChoicesThatTheOtherParametersForbid) {
  Fixture fixture(kByteLevel);
  const Ids xqz = fixture.tokenizer.encode("xqz", false);
  ASSERT_EQ(xqz.size(), 3u);
  fixture.params.choices = {"x", "xqz"};
  fixture.max_tokens = 2;
  EXPECT_EQ(
      fixture.refusal(),
      "choices[1]: \"xqz\" needs 3 tokens, but only 2 may be generated; raise max_tokens, or shorten the prompt if "
      "max_model_len is the limit");
  fixture.max_tokens = 3;
  EXPECT_EQ(fixture.make().longest(), 3);
  fixture.params.min_tokens = 2;
  EXPECT_EQ(fixture.refusal(),
            "choices[0]: \"x\" has 1 token, fewer than min_tokens (2); lower min_tokens or leave it out");
  fixture.params.min_tokens = 0;
  fixture.params.stop = {"!", "qz"};
  EXPECT_EQ(fixture.refusal(),
            "choices[1]: \"xqz\" contains the stop string \"qz\", so it would be cut; leave out one of them");
  fixture.params.stop = {};
  fixture.ends = {1, xqz[1]};
  EXPECT_EQ(fixture.refusal(),
            "choices[1]: \"xqz\" has token id 84, which ends an answer (an end token of the model or "
            "one of stop_token_ids); leave out one of them");
  fixture.ends = {};
  EXPECT_EQ(fixture.refusal(),
            "choices[0]: \"x\" is the beginning of choices[1], but this model has no end token that could tell them "
            "apart; name one in stop_token_ids");
  fixture.params.choices = {"x", "qz", "x"};
  EXPECT_EQ(fixture.refusal(), "accepted") << "nothing to tell apart";
  fixture.vocab_size = 90;
  EXPECT_EQ(fixture.refusal(),
            "choices[0]: \"x\" has token id 91, but this model's ids are from 0 to 89; leave it out");
}

}  // namespace
}  // namespace mortise
