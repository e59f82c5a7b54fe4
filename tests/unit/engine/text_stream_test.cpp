#include "engine/text_stream.hpp"

#include <gtest/gtest.h>

namespace mortise {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer value = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return value;
}

// Pushes `text` token by token; the pieces as they came out, the last from finish().
std::vector<std::string> pieces(const std::string& text, std::vector<std::string> stop) {
  TextStream stream(tokenizer(), std::move(stop));
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

}  // namespace
}  // namespace mortise
