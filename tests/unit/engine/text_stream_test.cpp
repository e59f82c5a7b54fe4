#include "engine/text_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mortise {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer value = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return value;
}

// Pushes `text` token by token; the pieces as they came out, the last from finish().
std::vector<std::string> pieces(const std::string& text, std::vector<std::string> stop, std::int32_t min_tokens = 0) {
  SamplingParams params;
  params.stop = std::move(stop);
  params.min_tokens = min_tokens;
  TextStream stream(tokenizer(), params, {});
  std::vector<std::string> result;
  for (std::int32_t id : tokenizer().encode(text, false)) {
    result.push_back(stream.push(id));
    if (stream.stopped()) return result;
  }
  result.push_back(stream.finish());
  return result;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string result;
  for (const std::string& part : parts) result += part;
  return result;
}

TEST(TextStream, GivesTheWholeTextWithoutStops) {
  EXPECT_EQ(joined(pieces("Once upon a time \xF0\x9F\x90\xBB!", {})), "Once upon a time \xF0\x9F\x90\xBB!");
}

TEST(TextStream, CutsAtTheFirstStopString) {
  EXPECT_EQ(joined(pieces("one two three four", {"three", "two thr"})), "one ");
}

TEST(TextStream, FindsAStopStringThatSpansTokens) {
  EXPECT_EQ(joined(pieces("alpha\n\nQ: beta", {"\n\nQ"})), "alpha");
}

TEST(TextStream, HoldsBackWhatMayBecomeAStopAndReleasesItWhenItDoesNot) {
  EXPECT_EQ(joined(pieces("say abcabd now", {"abcabe"})), "say abcabd now");
  EXPECT_EQ(joined(pieces("ends with ab", {"abc"})), "ends with ab");
}

TEST(TextStream, NeverEmitsHalfACharacter) {
  for (const std::string& piece : pieces("\xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\xA4\x96", {})) {
    if (piece.empty()) continue;

    EXPECT_NE(static_cast<unsigned char>(piece.front()) & 0xC0, 0x80) << "starts inside a character";
  }
}

TEST(TextStream, FindsAStopThatBeginsAndEndsInsideTokensOfSeveralBytes) {
  // Every one of these characters is several tokens of the demo's vocabulary.
  const std::string text = "🧿你好🤖 end";
  ASSERT_GT(tokenizer().encode(text, false).size(), 8u);
  EXPECT_EQ(joined(pieces(text, {"好"})), "🧿你");
  EXPECT_EQ(joined(pieces(text, {"你好🤖"})), "🧿");
  EXPECT_EQ(joined(pieces(text, {"你🤖", "🤖 "})), "🧿你好");
}

// The rule, token by token: the text ends with the first token after which a stop string is in it, before the stop
// string that begins first.
std::string expected_text(const std::string& text, const std::vector<std::string>& stop, std::int32_t min_tokens) {
  IncrementalDecoder decoder(tokenizer(), true);
  std::string so_far;
  std::size_t exempt = 0;
  std::int32_t num_tokens = 0;
  for (std::int32_t id : tokenizer().encode(text, false)) {
    so_far += decoder.push(id);
    if (++num_tokens < min_tokens) {
      exempt = so_far.size();
      continue;
    }
    std::size_t cut = std::string::npos;
    for (const std::string& s : stop) {
      for (std::size_t at = so_far.find(s); at != std::string::npos; at = so_far.find(s, at + 1)) {
        if (at + s.size() > exempt) cut = std::min(cut, at);
      }
    }
    if (cut != std::string::npos) return so_far.substr(0, cut);
  }
  return so_far + decoder.finish();
}

TEST(TextStream, OverlappingStopsInRandomTextsEndItWhereTheRuleSays) {
  const std::string letters[] = {"a", "b", " ", "é", "你", "ab", "the"};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto word = [&](std::size_t n) {
      std::string out;
      for (std::size_t i = 0; i < n; ++i) out += letters[random() % std::size(letters)];
      return out;
    };
    const std::string text = word(random() % 30);
    std::vector<std::string> stop(1 + random() % 4);
    for (std::string& s : stop) s = word(1 + random() % 4);
    const auto min_tokens = static_cast<std::int32_t>(random() % 3 == 0 ? random() % 12 : 0);
    ASSERT_EQ(joined(pieces(text, stop, min_tokens)), expected_text(text, stop, min_tokens)) << "seed " << seed;
  }
}

TEST(TextStream, LetsTextOutAsSoonAsItCanBeNoStop) {
  const std::string text = "one two three four five";
  std::string shown;
  SamplingParams params;
  params.stop = {"two té"};
  TextStream stream(tokenizer(), params, {});
  std::size_t most_held = 0;
  std::string pushed;
  for (std::int32_t id : tokenizer().encode(text, false)) {
    shown += stream.push(id);
    pushed += tokenizer().decode(std::span(&id, 1), true);
    most_held = std::max(most_held, pushed.size() - shown.size());
  }
  EXPECT_EQ(shown, text);  // "two t" is held, and let out with the "h"
  EXPECT_LE(most_held, 5u);
}

TEST(TextStream, AStopWithinTheFirstMinTokensIsText) {
  EXPECT_EQ(joined(pieces("xqxqxq", {"xq"}, 3)), "xq");  // tokens x, q, x, q: the second ends in the fourth
  EXPECT_EQ(joined(pieces("xqxqxq", {"qxq"}, 4)), "x");  // it may begin among them
  EXPECT_EQ(joined(pieces("xqxqxq", {"xq"}, 2)), "");    // the second token is the first that may end it
  EXPECT_EQ(joined(pieces("xqxqxq", {"xq"}, 7)), "xqxqxq");
}

TEST(TextStream, GoesOnFromThePrompt) {
  const Tokenizer sentencepiece = Tokenizer::load(MORTISE_SOURCE_DIR "/tests/golden/tokenizer/llama2_style");
  const std::vector<std::int32_t> prompt = sentencepiece.encode("the river", true),
                                  rest = sentencepiece.encode("the", false);
  const auto text_behind = [&](std::span<const std::int32_t> before) {
    TextStream stream(sentencepiece, {}, decode_prefix(sentencepiece, true, before));
    std::string text;
    for (std::int32_t id : rest) text += stream.push(id);
    return text + stream.finish();
  };
  EXPECT_EQ(text_behind(prompt), " the");                     // "the": the words would run together
  EXPECT_EQ(text_behind(std::span(prompt).first(1)), "the");  // after <s> alone
}

TEST(TextStream, SpecialTokensAreLeftOutUnlessAskedFor) {
  for (bool skip : {true, false}) {
    SamplingParams params;
    params.skip_special_tokens = skip;
    TextStream stream(tokenizer(), params, {});
    std::string text;
    for (std::int32_t id : tokenizer().encode("a<|im_end|>b", false)) text += stream.push(id);
    EXPECT_EQ(text + stream.finish(), skip ? "ab" : "a<|im_end|>b");
  }
}

}  // namespace
}  // namespace mortise
