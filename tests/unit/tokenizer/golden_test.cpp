// Ids and texts against the `tokenizers` package, as committed in tests/golden/tokenizer.
// Covers: runtime/tokenizer/{tokenizer,tokenizer_parts}
// Covers: runtime/tokenizer/added_tokens/{added_token_matcher,added_tokens}
// Covers: runtime/tokenizer/characters/character_sets
// Covers: runtime/tokenizer/model/{bpe,model,vocabulary} runtime/tokenizer/normalizer/{normalizer,working_text}
// Covers: runtime/tokenizer/post_processor/post_processor
// Covers: runtime/tokenizer/pre_tokenizer/{piece_rewriters,pre_tokenizer,split}
// Covers: runtime/tokenizer/regex/{pattern,reader,set,syntax,unicode_sets}
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "golden_files.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip_special_tokens) {
  IncrementalDecoder stream(tokenizer, skip_special_tokens);
  std::string text;
  for (const std::int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

void check_decoding(const Tokenizer& tokenizer, const Ids& ids, const std::string& text,
                    const std::string& without_special) {
  EXPECT_EQ(tokenizer.decode(ids, false), text);
  EXPECT_EQ(tokenizer.decode(ids, true), without_special);
  EXPECT_EQ(streamed(tokenizer, ids, false), text);
  EXPECT_EQ(streamed(tokenizer, ids, true), without_special);
}

// A case is [text, ids, ids with special tokens, decoded, decoded without special tokens] or [ids, decoded, without].
void check_case(const Tokenizer& tokenizer, const json& golden) {
  SCOPED_TRACE(golden[0].dump(-1, ' ', /*ensure_ascii=*/true));
  if (golden[0].is_array()) return check_decoding(tokenizer, golden[0], golden[1], golden[2]);
  EXPECT_EQ(tokenizer.encode(golden[0].get<std::string>(), false), golden[1].get<Ids>());
  EXPECT_EQ(tokenizer.encode(golden[0].get<std::string>(), true), golden[2].get<Ids>());
  check_decoding(tokenizer, golden[2], golden[3], golden[4]);
}

class TrainedTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(TrainedTokenizer, EncodesAndDecodesAsTheReference) {
  const auto folder = test::golden_dir() / GetParam();
  const auto tokenizer = Tokenizer::load(folder);
  const json cases = test::read_json(folder / "cases.json");
  ASSERT_GT(cases.size(), 100u);
  for (const json& golden : cases) check_case(tokenizer, golden);
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, TrainedTokenizer,
                         testing::Values("demo_style", "qwen_style", "llama3_style", "llama2_style"),
                         [](const auto& info) { return std::string(info.param); });

// Every component and option, each in a variant of one tokenizer; the variant's name is printed with a failure.
class TokenizerVariants : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerVariants, EncodeAndDecodeAsTheReference) {
  const auto variants = test::read_variants(GetParam());
  ASSERT_GE(variants.size(), 8u);
  for (const test::Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    const test::TempFolder folder;
    folder.write("tokenizer.json", variant.document.dump());
    const auto tokenizer = Tokenizer::load(folder.path());
    for (const json& golden : variant.cases) check_case(tokenizer, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, TokenizerVariants, testing::Values("components", "spans", "pieces"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mortise
