// Tokenizers of GGUF files: the ids of the golden tokenizers, written as GGUF; what is damaged or not known is refused.
// Covers: runtime/tokenizer/gguf/{gguf_tokenizer,pre_tokenizers,score_merges}
#include "tokenizer/gguf/gguf_tokenizer.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "error.hpp"
#include "golden/write_gguf.hpp"
#include "golden_files.hpp"
#include "temp_folder.hpp"
#include "tokenizer/gguf/pre_tokenizers.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class GgufTokenizers : public testing::Test {
 protected:
  Tokenizer load(const GgufWriter& writer) const { return Tokenizer::load(temp_.write("x.gguf", writer.bytes())); }
  std::string refusal(const GgufWriter& writer) const {
    try {
      load(writer);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const TempFolder temp_;
};

struct Golden {
  const char* folder;
  const char* pre;  // "": SentencePiece
};
class EachStyle : public GgufTokenizers, public testing::WithParamInterface<Golden> {};
INSTANTIATE_TEST_SUITE_P(Goldens, EachStyle,
                         testing::Values(Golden{"qwen_style", "qwen2"}, Golden{"llama3_style", "llama-bpe"},
                                         Golden{"llama2_style", ""}),
                         [](const auto& info) { return std::string(info.param.folder); });

TEST_P(EachStyle, GivesTheGoldenIdsAndTexts) {
  const auto folder = golden_dir() / GetParam().folder;
  GgufWriter writer;
  add_tokenizer(writer, folder, GetParam().pre);
  const Tokenizer tokenizer = load(writer);
  const Tokenizer original = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.vocab_size(), original.vocab_size());
  EXPECT_EQ(tokenizer.bos_id(), original.bos_id());
  EXPECT_EQ(tokenizer.eos_id(), original.eos_id());
  EXPECT_EQ(tokenizer.chat_template(), original.chat_template());
  std::size_t texts = 0;
  for (const json& golden : read_json(folder / "cases.json")) {
    SCOPED_TRACE(golden[0].dump(-1, ' ', /*ensure_ascii=*/true));
    if (golden[0].is_array()) continue;
    const auto text = golden[0].get<std::string>();
    // A GGUF file does not say that an added token ("café" in qwen_style) is also found in other normal forms.
    if (text.find("cafe\u0301") != text.npos) continue;
    ++texts;
    EXPECT_EQ(tokenizer.encode(text, false), golden[1].get<Ids>());
    EXPECT_EQ(tokenizer.encode(text, true), golden[2].get<Ids>());
    EXPECT_EQ(tokenizer.decode(golden[2].get<Ids>(), false), golden[3].get<std::string>());
  }
  EXPECT_GT(texts, 50u);
}

// A byte-level vocabulary of three letters and two merges.
GgufWriter letters() {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  writer.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "abc", "<s>"});
  writer.wholes("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 3});
  writer.texts("tokenizer.ggml.merges", {"a b", "ab c"});
  return writer;
}

TEST_F(GgufTokenizers, MergesAndSpecialTokensAreThoseOfTheKeys) {
  const Tokenizer tokenizer =
      load(letters().whole("tokenizer.ggml.bos_token_id", 5).truth("tokenizer.ggml.add_bos_token", true));
  EXPECT_EQ(tokenizer.encode("abcab<s>c", true), (Ids{5, 4, 3, 5, 2}));
  EXPECT_TRUE(tokenizer.is_special(5));
}

// Text of a user must not become a control token by merges, so such tokens take no part in them.
TEST_F(GgufTokenizers, NoTextMergesIntoAControlToken) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b", "ab", "▁"});
  writer.wholes("tokenizer.ggml.token_type", {1, 1, 3, 1}).numbers("tokenizer.ggml.scores", {0, -1, 5, -2});
  writer.truth("tokenizer.ggml.add_bos_token", false).truth("tokenizer.ggml.add_space_prefix", false);
  const Tokenizer tokenizer = load(writer);
  EXPECT_EQ(tokenizer.encode("ab", false), (Ids{2}));  // the token is found in the text as it is
  const SegmentedText plain{{"ab", false}};
  EXPECT_EQ(tokenizer.encode(plain, false), (Ids{0, 1}));
}

TEST_F(GgufTokenizers, TheBestScoreMergesFirst) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "bc", "▁"});
  writer.numbers("tokenizer.ggml.scores", {-9, -9, -9, -2, -1, -9}).truth("tokenizer.ggml.add_bos_token", false);
  writer.truth("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(load(writer).encode("abc", false), (Ids{0, 4}));
}

TEST_F(GgufTokenizers, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_THAT(refusal(GgufWriter().text("tokenizer.ggml.model", "bert")), HasSubstr("is 'bert'; served are gpt2"));
  EXPECT_THAT(refusal(GgufWriter()), HasSubstr("has no key 'tokenizer.ggml.model', so it has no tokenizer"));
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "viking")
      .texts("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(refusal(writer), AllOf(HasSubstr("key 'tokenizer.ggml.pre' at byte"),
                                     HasSubstr("is 'viking'; known are default, gpt-2"), HasSubstr("smollm")));
  EXPECT_THAT(refusal(letters().text("tokenizer.ggml.odd", "x")), HasSubstr("this key is not known"));
  EXPECT_EQ(refusal(letters().whole("tokenizer.ggml.fim_pre_token_id", 1)), "");
}

TEST_F(GgufTokenizers, MissingKeysAreNamed) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  EXPECT_THAT(refusal(writer), HasSubstr("has no key 'tokenizer.ggml.tokens'; convert the model again"));
  EXPECT_THAT(refusal(writer.texts("tokenizer.ggml.tokens", {"a"})),
              HasSubstr("has no key 'tokenizer.ggml.merges' with a list of strings"));
}

TEST_F(GgufTokenizers, DamagedKeysAreRefused) {
  const auto with = [&](const std::vector<std::string>& tokens, const std::vector<std::int32_t>& types,
                        const std::vector<std::string>& merges) {
    GgufWriter writer;
    writer.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2")
        .texts("tokenizer.ggml.tokens", tokens);
    return refusal(writer.wholes("tokenizer.ggml.token_type", types).texts("tokenizer.ggml.merges", merges));
  };
  EXPECT_EQ(with({"a", "b", "ab"}, {1, 1, 1}, {"a b"}), "");
  EXPECT_THAT(with({"a", "a"}, {1, 1}, {}), HasSubstr("'a' is there twice"));
  EXPECT_EQ(with({"a", "a"}, {1, 5}, {}), "");  // an unused token is a hole
  EXPECT_THAT(with({"a", "\xff"}, {1, 1}, {}), HasSubstr("token 1 is not UTF-8"));
  EXPECT_THAT(with({"a", "b"}, {1}, {}), HasSubstr("expected a number for each of 2 tokens"));
  EXPECT_THAT(with({"a", "b"}, {1, 7}, {}), HasSubstr("token 1 has type 7; expected 1 to 6"));
  EXPECT_THAT(with({"a", "b"}, {1, 1}, {"ab"}), HasSubstr("merge 0 is 'ab'; expected two tokens"));
  EXPECT_THAT(with({"a", "b"}, {1, 1}, {"a b c"}), HasSubstr("merge 0 is 'a b c'"));
  EXPECT_THAT(with({"a", "b"}, {1, 1}, {"a b"}), HasSubstr("expected tokens of model.vocab, found \"ab\""));
  EXPECT_THAT(refusal(letters().whole("tokenizer.ggml.bos_token_id", 6)), HasSubstr("there are 6 tokens"));
  EXPECT_THAT(
      refusal(letters().truth("tokenizer.ggml.add_bos_token", true)),
      HasSubstr("'tokenizer.ggml.add_bos_token' asks for a token that 'tokenizer.ggml.bos_token_id' does not name"));
}

TEST_F(GgufTokenizers, ScoresMustBeThereAndFinite) {
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_THAT(refusal(writer), HasSubstr("has no key 'tokenizer.ggml.scores'; convert the model again"));
  EXPECT_THAT(refusal(GgufWriter(writer).numbers("tokenizer.ggml.scores", {0, NAN})),
              HasSubstr("token 1 is not finite"));
  GgufWriter cleaned = GgufWriter(writer).numbers("tokenizer.ggml.scores", {0, 0});
  EXPECT_THAT(refusal(cleaned.truth("tokenizer.ggml.remove_extra_whitespaces", true)), HasSubstr("expected false"));
}

// A named token that is an ordinary word of the vocabulary would otherwise become special.
TEST_F(GgufTokenizers, AnOrdinaryPaddingTokenStaysOrdinary) {
  const Tokenizer tokenizer = load(letters().whole("tokenizer.ggml.padding_token_id", 0));
  EXPECT_FALSE(tokenizer.is_special(0));
}

TEST_F(GgufTokenizers, TheFingerprintFollowsTokensAndTemplate) {
  const std::string plain = load(letters()).fingerprint();
  EXPECT_EQ(plain, load(letters().text("general.name", "another")).fingerprint());
  EXPECT_NE(plain, load(letters().text("tokenizer.chat_template", "x")).fingerprint());
  EXPECT_NE(plain, load(letters().whole("tokenizer.ggml.bos_token_id", 5)).fingerprint());
}

}  // namespace
}  // namespace mortise::test
