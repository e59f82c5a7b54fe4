// Each decoder by hand, token by token: what it passes on at once, what it withholds, and what comes at the end.
// tokenizer/golden_test.cpp compares whole tokenizers with the package.
// Covers: runtime/tokenizer/decoder/decoder_steps
#include "tokenizer/decoder/decoder.hpp"

#include <gmock/gmock.h>

namespace mortise::tokenizer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Texts = std::vector<std::string>;

// Returns the texts that become final with each token, and at the end. A null `decoder`: the file has none.
Texts decoded(const json& decoder, const Texts& tokens) {
  const ConfigNode node(decoder, "tokenizer.json");
  const DecoderChain chain = make_decoder_chain(decoder.is_null() ? nullptr : &node);
  DecodeStream stream(chain);
  Texts texts;
  for (const std::string& token : tokens) {
    stream.token(token);
    texts.push_back(stream.take_text());
  }
  stream.finish();
  texts.push_back(stream.take_text());
  return texts;
}

json sequence(const json& decoders) {
  return {{"type", "Sequence"}, {"decoders", decoders}};
}

json replacement(const json& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

TEST(Decoder, WithoutOneTokensAreJoinedBySpaces) {
  EXPECT_THAT(decoded(nullptr, {"a", "b", ""}), ElementsAre("a", " b", " ", ""));
}

TEST(Decoder, ByteLevelWaitsForWholeCharacters) {
  const json byte_level = {{"type", "ByteLevel"}};
  EXPECT_THAT(decoded(byte_level, {"a\u0120", "\u00c3", "\u00a9"}), ElementsAre("a ", "", "\u00e9", ""));
  EXPECT_THAT(decoded(byte_level, {"\u00c3", "b"}), ElementsAre("", "\ufffdb", ""));
  EXPECT_THAT(decoded(byte_level, {"\u00c3"}), ElementsAre("", "\ufffd"));
  EXPECT_THAT(decoded(byte_level, {"\u4f60"}), ElementsAre("\u4f60", ""));  // no character of the byte alphabet
}

TEST(Decoder, ByteFallbackWaitsForTheEndOfARunOfBytes) {
  const json fallback = {{"type", "ByteFallback"}};
  EXPECT_THAT(decoded(fallback, {"x", "<0xC3>", "<0xa9>", "y"}), ElementsAre("x", "", "", "\u00e9y", ""));
  EXPECT_THAT(decoded(fallback, {"<0xC3>", "y"}), ElementsAre("", "\ufffdy", ""));
  EXPECT_THAT(decoded(fallback, {"<0xFF>", "<0xFE>"}), ElementsAre("", "", "\ufffd\ufffd"));  // one for each byte
  EXPECT_THAT(decoded(fallback, {"<0xZZ>", "<0x4>"}), ElementsAre("<0xZZ>", "<0x4>", ""));
}

TEST(Decoder, MetaspaceDropsTheSpaceThatItAddsInFrontOfATextAlone) {
  const json always = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  EXPECT_THAT(decoded(always, {"\u2581Hello", "\u2581world"}), ElementsAre("Hello", " world", ""));
  const json never = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}};
  EXPECT_THAT(decoded(never, {"\u2581Hello\u2581"}), ElementsAre(" Hello ", ""));
}

TEST(Decoder, TheSuffixOfAWordIsASpaceOnceAnotherTokenComes) {
  const json bpe = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
  EXPECT_THAT(decoded(bpe, {"hel", "lo</w>", "you</w>"}), ElementsAre("hel", "lo", " you", ""));
}

TEST(Decoder, StripRemovesACharacterAtBothEndsOfEachToken) {
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 1u}};
  EXPECT_THAT(decoded(strip, {"  a  ", " b"}), ElementsAre(" a ", "b", ""));
  const json start = {{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 0u}};
  EXPECT_THAT(decoded(start, {"  a  "}), ElementsAre(" a  ", ""));
}

TEST(Decoder, ReplaceFindsItsPatternWithinATokenAlone) {
  const json breaks = replacement({{"String", "<br>"}}, "\n");
  EXPECT_THAT(decoded(breaks, {"a<br>b<br", ">c"}), ElementsAre("a\nb<br", ">c", ""));
  EXPECT_THAT(decoded(replacement({{"Regex", "[0-9]+"}}, "#"), {"a12b3"}), ElementsAre("a#b#", ""));
}

TEST(Decoder, BehindFuseAllTokensAreOne) {
  const json decoders = sequence({{{"type", "Fuse"}}, replacement({{"String", "<br>"}}, "\n")});
  EXPECT_THAT(decoded(decoders, {"a<", "br>b"}), ElementsAre("a", "\nb", ""));
}

TEST(Decoder, NestedSequencesRunInOrder) {
  const json inner = sequence({replacement({{"String", "a"}}, "b"), replacement({{"String", "b"}}, "c")});
  EXPECT_THAT(decoded(sequence({inner, replacement({{"String", "c"}}, "d")}), {"abc"}), ElementsAre("ddd", ""));
}

}  // namespace
}  // namespace mortise::tokenizer
