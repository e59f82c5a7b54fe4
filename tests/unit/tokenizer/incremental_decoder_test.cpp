// When each character comes out. That all of it is the text of a whole decode is tested in property_test.cpp.
#include "tokenizer/incremental_decoder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "golden_files.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

// Which of the tokens of a decoder's golden variant come out when.
std::vector<std::string> streamed_pieces(const std::string& variant_name, const std::vector<std::string>& tokens) {
  for (const test::Variant& variant : test::read_variants("spans")) {
    if (variant.name != variant_name) continue;
    const test::TempFolder folder;
    folder.write("tokenizer.json", variant.document.dump());
    const auto tokenizer = Tokenizer::load(folder.path());
    IncrementalDecoder stream(tokenizer, false);
    std::vector<std::string> pieces;
    for (const std::string& token : tokens) pieces.push_back(stream.push(tokenizer.token_id(token).value()));
    pieces.push_back(stream.finish());
    return pieces;
  }
  return {"no such variant"};
}

TEST(IncrementalDecoder, WithholdsNothingForMetaspace) {
  const std::vector<std::string> expected = {"a", " a", "  b ", ""};
  EXPECT_EQ(streamed_pieces("decoder Metaspace", {"▁a", "▁a", "▁▁b▁"}), expected);
}

TEST(IncrementalDecoder, WithholdsTheEndOfAWordUntilAnotherTokenComes) {
  const std::vector<std::string> expected = {"▁d", " e", " f é", "▁d", ""};  // the last one is no space
  EXPECT_EQ(streamed_pieces("decoder BPEDecoder", {"▁d</w>", "e</w>f</w>", "é", "▁d</w>"}), expected);
}

TEST(IncrementalDecoder, GivesACharacterWithTheTokenThatCompletesIt) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "demo_style");
  const std::vector<std::int32_t> ids =
      tokenizer.encode("\U0001F9FF", false);  // not in the training text: several tokens
  ASSERT_GT(ids.size(), 1u);
  IncrementalDecoder stream(tokenizer, false);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(stream.push(ids[i]), "");
  EXPECT_EQ(stream.push(ids.back()), "\U0001F9FF");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(*tokenizer.token_id("a")), "\uFFFDa");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(IncrementalDecoder, FinishesACharacterThatBeganBefore) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "demo_style");
  const std::vector<std::int32_t> ids = tokenizer.encode("x\U0001F9FFy", false);
  ASSERT_GT(ids.size(), 3u);
  IncrementalDecoder stream(tokenizer, false, decode_prefix(tokenizer, false, std::span(ids).first(2)));
  std::string text;
  for (std::size_t i = 2; i < ids.size(); ++i) text += stream.push(ids[i]);
  EXPECT_EQ(text + stream.finish(), "\U0001F9FFy");
}

TEST(IncrementalDecoder, ALineBreakThatTheDecoderWithheldIsNotGivenAgain) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "llama2_style");
  const std::vector<std::int32_t> before =
      tokenizer.encode("question:\u4F60", false);  // ends in byte tokens, a run that is withheld
  IncrementalDecoder stream(tokenizer, true, decode_prefix(tokenizer, true, before));
  std::string text;
  for (const std::int32_t id : tokenizer.encode("the", false)) text += stream.push(id);
  EXPECT_EQ(text + stream.finish(), " the");
}

TEST(IncrementalDecoder, OutlivesAMoveOfItsTokenizer) {
  auto first = Tokenizer::load(test::golden_dir() / "demo_style");
  IncrementalDecoder stream(first, false);
  const auto second = std::move(first);
  EXPECT_EQ(stream.push(*second.token_id("a")), "a");
}

}  // namespace
}  // namespace mortise
