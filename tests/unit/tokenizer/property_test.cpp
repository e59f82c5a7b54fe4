// What holds for every text and every list of ids. Seeds are printed with a failure.
// Covers: runtime/tokenizer/{incremental_decoder,tokenizer}
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "golden_files.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr int kNumTexts = 1500;
const char* const kFolders[] = {"demo_style", "qwen_style", "llama3_style", "llama2_style"};

std::string random_text(std::mt19937& rng) {
  const char* const words[] = {" the", "Anna's ", "river",         "\r\n", "    ", "12345", "é",
                               "文字", "😀",       "<|endoftext|>", "<s>",  "\t",   "'ll"};
  const auto pick = [&](std::uint32_t n) { return static_cast<std::uint32_t>(rng() % n); };
  std::string text;
  for (std::uint32_t i = pick(12); i > 0; --i) {
    if (pick(2)) {
      text += words[pick(std::size(words))];
      continue;
    }
    const std::uint32_t limits[] = {0x80, 0x800, 0x10000, 0x110000};
    const char32_t c = pick(limits[pick(4)]);
    if (c < 0xD800 || c > 0xDFFF) tokenizer::append_utf8(c, text);
  }
  return text;
}

Ids random_ids(std::mt19937& rng, std::size_t vocab_size) {
  Ids ids(rng() % 40);
  for (auto& id : ids) id = static_cast<std::int32_t>(rng() % (vocab_size + 2)) - 1;
  return ids;
}

TEST(TokenizerProperty, ByteLevelDecodesToTheTextThatWasEncoded) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "demo_style");
  for (unsigned seed = 0; seed < kNumTexts; ++seed) {
    std::mt19937 rng(seed);
    const std::string text = random_text(rng);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text, false), false), text) << "seed " << seed;
  }
}

TEST(TokenizerProperty, InvalidBytesEncodeAsTheirReplacement) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "demo_style");
  for (unsigned seed = 0; seed < kNumTexts; ++seed) {
    std::mt19937 rng(seed);
    std::string bytes = random_text(rng);
    for (auto& byte : bytes) {
      if (rng() % 8 == 0) byte = static_cast<char>(rng());
    }
    std::string text;
    tokenizer::append_lossy(bytes, /*is_end=*/true, text);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(bytes, false), false), text) << "seed " << seed;
  }
}

TEST(TokenizerProperty, StreamsWhatAWholeDecodeGivesInWholeCharacters) {
  for (const char* folder : kFolders) {
    const auto tokenizer = Tokenizer::load(test::golden_dir() / folder);
    for (unsigned seed = 0; seed < kNumTexts; ++seed) {
      std::mt19937 rng(seed);
      const bool skip_special_tokens = seed % 2 == 0;
      const Ids ids = seed % 3 ? random_ids(rng, tokenizer.vocab_size()) : tokenizer.encode(random_text(rng), true);
      IncrementalDecoder stream(tokenizer, skip_special_tokens);
      std::string text;
      for (const std::int32_t id : ids) {
        const std::string piece = stream.push(id);
        ASSERT_TRUE(tokenizer::is_valid_utf8(piece)) << folder << ", seed " << seed;
        text += piece;
      }
      text += stream.finish();
      ASSERT_EQ(text, tokenizer.decode(ids, skip_special_tokens)) << folder << ", seed " << seed;
    }
  }
}

TEST(TokenizerProperty, StreamsEveryDecoderAsAWhole) {
  for (const test::Variant& variant : test::read_variants("spans")) {
    if (!variant.name.starts_with("decoder ")) continue;
    const test::TempFolder folder;
    folder.write("tokenizer.json", variant.document.dump());
    const auto tokenizer = Tokenizer::load(folder.path());
    for (unsigned seed = 0; seed < kNumTexts; ++seed) {
      std::mt19937 rng(seed);
      Ids ids = random_ids(rng, tokenizer.vocab_size());
      for (auto& id : ids) {  // mostly the added tokens, which are what the decoders change
        if (rng() % 3) id = 512 + static_cast<std::int32_t>(rng() % 11);
      }
      IncrementalDecoder stream(tokenizer, /*skip_special_tokens=*/false);
      std::string text;
      for (const std::int32_t id : ids) text += stream.push(id);
      text += stream.finish();
      ASSERT_EQ(text, tokenizer.decode(ids, false)) << variant.name << ", seed " << seed;
    }
  }
}

// Whatever a cut through a list of tokens separates: the text after it is what the second part adds.
TEST(TokenizerProperty, GoesOnWhereTheTextBeforeEnds) {
  for (const char* folder : kFolders) {
    const auto tokenizer = Tokenizer::load(test::golden_dir() / folder);
    int compared = 0;
    for (unsigned seed = 0; seed < kNumTexts; ++seed) {
      std::mt19937 rng(seed);
      const bool skip_special_tokens = seed % 2 == 0;
      const Ids ids = seed % 3 ? random_ids(rng, tokenizer.vocab_size()) : tokenizer.encode(random_text(rng), true);
      const std::size_t cut = ids.empty() ? 0 : rng() % (ids.size() + 1);
      const Ids before(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
      IncrementalDecoder stream(tokenizer, skip_special_tokens, decode_prefix(tokenizer, skip_special_tokens, before));
      std::string text;
      for (std::size_t i = cut; i < ids.size(); ++i) text += stream.push(ids[i]);
      text += stream.finish();
      const std::string first = tokenizer.decode(before, skip_special_tokens);
      const std::string all = tokenizer.decode(ids, skip_special_tokens);
      // Not so where the cut goes through a character, or through bytes that are none.
      if (all.compare(0, first.size(), first) != 0 || first.ends_with("\uFFFD")) continue;
      ASSERT_EQ(text, all.substr(first.size())) << folder << ", seed " << seed << ", cut " << cut;
      ++compared;
    }
    EXPECT_GT(compared, kNumTexts / 2) << folder;
  }
}

// With a cost that grows with the square of the length each of these would take minutes.
TEST(TokenizerProperty, LongTextsWithoutABreakAreEncoded) {
  constexpr std::size_t kLength = 300000;
  std::mt19937 rng(1);
  std::string letters;
  for (std::size_t i = 0; i < kLength; ++i) letters += static_cast<char>('a' + rng() % 8);
  std::string marks = "a";
  for (std::size_t i = 0; i < kLength / 4; ++i) marks += i % 2 ? "\u0301" : "\u0323";
  for (const char* folder : kFolders) {
    const auto tokenizer = Tokenizer::load(test::golden_dir() / folder);
    for (const std::string& text : {letters, std::string(kLength, 'a'), std::string(kLength, ' ') + "x",
                                    std::string(kLength, '\0'), std::string(kLength, '\n'), marks}) {
      const Ids ids = tokenizer.encode(text, false);
      const bool composes = folder == std::string("qwen_style") && text == marks;
      EXPECT_TRUE(composes || tokenizer.decode(ids, false) == text) << folder;
    }
  }
}

TEST(TokenizerProperty, ThreadsShareATokenizer) {
  const auto tokenizer = Tokenizer::load(test::golden_dir() / "qwen_style");
  std::mt19937 rng(5);
  std::string text;
  for (int i = 0; i < 300; ++i) text += random_text(rng);
  const Ids expected = tokenizer.encode(text, true);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = tokenizer.encode(text, true); });
  for (auto& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace mortise
