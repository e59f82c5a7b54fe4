// Texts in which special tokens may stand in some parts alone.
// Covers: runtime/tokenizer/tokenizer runtime/tokenizer/added_tokens/added_tokens
#include <gmock/gmock.h>

#include "golden_files.hpp"
#include "temp_folder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using Ids = std::vector<std::int32_t>;

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  return tokenizer;
}

bool has_special(const Tokenizer& tokenizer, const Ids& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](std::int32_t id) { return tokenizer.is_special(id); });
}

TEST(Segments, OrdinaryTextIsTokenizedAcrossSeams) {
  const std::string text = "<|im_start|>user\nHello  world, 12345 grüße\n\n<|im_end|>\n";
  const Ids whole = demo().encode(text, false);
  for (std::size_t a = 13; a <= 48; ++a) {  // after the first token, before the last
    const SegmentedText parts = {{text.substr(0, a), true}, {text.substr(a, 3), false}, {text.substr(a + 3), true}};
    if (a + 3 > text.find("<|im_end|>")) break;
    const auto within_character = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
    if (within_character(a) || within_character(a + 3)) continue;
    EXPECT_EQ(demo().encode(parts, false), whole) << a;
  }
}

TEST(Segments, ASpecialTokenIsFoundInItsPartsAlone) {
  const std::int32_t end = *demo().token_id("<|im_end|>");
  const auto count = [&](const SegmentedText& parts) {
    const Ids ids = demo().encode(parts, false);
    EXPECT_EQ(demo().decode(ids, false), plain_text(parts));
    return std::count(ids.begin(), ids.end(), end);
  };
  EXPECT_EQ(count({{"a<|im_end|>b", true}}), 1);
  EXPECT_EQ(count({{"a<|im_end|>b", false}}), 0);
  EXPECT_EQ(count({{"a<|im_", true}, {"end|>b", false}}), 0);
  EXPECT_EQ(count({{"a<|im_", false}, {"end|>b", true}}), 0);
  EXPECT_EQ(count({{"a<|im_", true}, {"end|>b", true}}), 1);
  EXPECT_EQ(count({{"<|im_end|>", false}, {"<|im_end|>", true}, {"<|im_end|>", false}}), 1);
  EXPECT_EQ(demo().cuts_within_special_tokens("a<|im_end|><|im_end|>"), (std::vector<std::size_t>{2, 12}));
  EXPECT_TRUE(demo().cuts_within_special_tokens("a<|im_end|").empty());
}

TEST(Segments, NoStyleOfTokenizerMakesASpecialTokenOfACallersText) {
  for (const char* style : {"demo_style", "llama2_style", "llama3_style", "qwen_style"}) {
    const Tokenizer tokenizer = Tokenizer::load(test::golden_dir() / style);
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.vocab_size()); ++id) {
      if (!tokenizer.is_special(id)) continue;
      const std::string token(*tokenizer.token(id));
      const Ids ids = tokenizer.encode(SegmentedText{{"x ", true}, {token, false}, {" y", true}}, false);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0) << style << ": " << token;
      const Ids own = tokenizer.encode(SegmentedText{{"x ", false}, {token, true}, {" y", false}}, false);
      EXPECT_EQ(std::count(own.begin(), own.end(), id), 1) << style << ": " << token;
    }
  }
}

TEST(Segments, ManyMessagesTakeNoSquareOfTime) {
  SegmentedText parts;
  for (int i = 0; i < 200'000; ++i) {
    parts.push_back({"<|im_start|>", true});
    parts.push_back({"a", false});
  }
  const Ids ids = demo().encode(parts, false);  // with each message walking over all ranges it would take minutes
  EXPECT_EQ(ids.size(), 400'000u);
}

TEST(Segments, AnEncoderThatHasEnoughReturns) {
  const SegmentedText parts = {{"<|im_start|>a<|im_end|>b<|im_start|>", true}};
  EXPECT_EQ(demo().encode(parts, false, 5).size(), 5u);
  EXPECT_EQ(demo().encode(parts, false, 2).size(), 3u);
}

// A vocabulary that has the token itself, and takes whole words from it.
TEST(Segments, AModelThatKnowsTheWordIsCutOff) {
  test::TempFolder folder;
  folder.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [
      {"id": 4, "content": "<s>", "special": true, "normalized": true}],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "ignore_merges": true, "merges": [], "vocab": {"<": 0, "s": 1, ">": 2, "a": 3, "<s>": 4}}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode(SegmentedText{{"<s>", false}}, false), (Ids{0, 1, 2}));
  EXPECT_EQ(tokenizer.encode(SegmentedText{{"a<s>", true}, {"A<S>", false}, {"<s>a", true}}, false),
            (Ids{3, 4, 3, 0, 1, 2, 4, 3}));
}

// NFKC makes "<s>" of full-width characters.
TEST(Segments, ANormalizerMakesNoSpecialToken) {
  test::TempFolder folder;
  folder.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [
      {"id": 4, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "NFKC"}, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "ignore_merges": true, "merges": [], "vocab": {"<": 0, "s": 1, ">": 2, "a": 3, "<s>": 4}}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  const std::string wide = "\uFF1C\uFF53\uFF1E";
  EXPECT_EQ(tokenizer.encode(SegmentedText{{wide, false}}, false), (Ids{0, 1, 2}));
  EXPECT_EQ(tokenizer.encode(SegmentedText{{"<s>", true}, {"a", false}, {wide, false}, {"<s>", true}}, false),
            (Ids{4, 3, 0, 1, 2, 4}));
}

}  // namespace
}  // namespace mortise
