// What load() refuses, with which words, and what it takes from tokenizer_config.json.
// Covers: runtime/tokenizer/file/{config_node,tokenizer_file} runtime/tokenizer/model/vocabulary
#include <filesystem>
#include <string>

#include <sys/mman.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"
#include "golden_files.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// A tokenizer with 256 byte tokens would hide what a test is about; this one has the letters a and b.
json small_tokenizer() {
  return json::parse(R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4}, "merges": [["a", "b"]]}})");
}

json token(const std::string& content) {
  return {{"id", 9}, {"content", content}};
}

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string load_error(const std::filesystem::path& folder) {
  return error_of([&] { Tokenizer::load(folder); });
}

std::string error_of_text(const std::string& text) {
  const test::TempFolder folder;
  folder.write("tokenizer.json", text);
  return load_error(folder.path());
}

std::string error_with(const json& patch) {
  json document = small_tokenizer();
  document.merge_patch(patch);
  return error_of_text(document.dump());
}

Tokenizer load_with_config(const json& patch, const json& config) {
  json document = small_tokenizer();
  document.merge_patch(patch);
  const test::TempFolder folder;
  folder.write("tokenizer.json", document.dump());
  folder.write("tokenizer_config.json", config.dump());
  return Tokenizer::load(folder.path());
}

TEST(TokenizerLoad, TakesAFolderWithTokenizerJsonAlone) {
  EXPECT_EQ(error_with(json::object()), "no error");
}

TEST(TokenizerLoad, NamesTheFileThatIsMissingOrNoJson) {
  EXPECT_THAT(load_error("/nonexistent"),
              AllOf(HasSubstr("/nonexistent: has no tokenizer.json"), HasSubstr("download it")));
  EXPECT_THAT(error_of_text(""),
              AllOf(HasSubstr("tokenizer.json: not JSON: parse error at line 1, column 1"), HasSubstr("download")));
  EXPECT_THAT(error_of_text("{\"model\": {\"vocab\": {\"a\": 0, \"b\""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of_text("[1, 2]"), HasSubstr("tokenizer.json: expected an object, found an array"));
  EXPECT_THAT(error_of_text("{\"a\": \"\xff\"}"), HasSubstr("not JSON"));
}

TEST(TokenizerLoad, RefusesNestingThatWouldOverflowTheStack) {
  EXPECT_THAT(error_of_text(std::string(1000000, '[')), HasSubstr("nested more than 100 levels deep"));
  const test::TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", "{\"a\":" + std::string(1000000, '['));
  EXPECT_THAT(load_error(folder.path()), HasSubstr("tokenizer_config.json: JSON is nested deeper than 100 levels"));
}

TEST(TokenizerLoad, RefusesWhatIsNoFileAndWhatIsTooLarge) {
  const test::TempFolder folder;
  const std::filesystem::path path = folder.path() / "tokenizer.json";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(
      load_error(folder.path()),
      HasSubstr("tokenizer.json: is not a file; expected a file of a tokenizer here"));  // a hang: it was opened
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(load_error(folder.path()), HasSubstr("tokenizer.json: is not a file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("tokenizer.json", path);
  EXPECT_THAT(load_error(folder.path()), AllOf(HasSubstr("tokenizer.json: cannot be examined: Too many levels"),
                                               HasSubstr("; check its permissions and links")));
  std::filesystem::remove(path);
  folder.write("tokenizer.json", "{}");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // sparse: takes no room
  EXPECT_THAT(load_error(folder.path()), HasSubstr("tokenizer.json: 1099511627776 bytes; the limit is 268435456"));
  folder.write("tokenizer.json", small_tokenizer().dump());
  for (const char* name : {"tokenizer_config.json", "chat_template.jinja"}) {
    folder.write(name, "{}");
    std::filesystem::resize_file(folder.path() / name, std::uintmax_t{1} << 40);
    EXPECT_THAT(load_error(folder.path()),
                HasSubstr(name + std::string(": 1099511627776 bytes; the limit is 67108864")));
    std::filesystem::remove(folder.path() / name);
    std::filesystem::create_symlink(name, folder.path() / name);
    EXPECT_THAT(load_error(folder.path()), HasSubstr(name + std::string(": cannot be examined: Too many levels")));
    std::filesystem::remove(folder.path() / name);
  }
}

TEST(TokenizerLoad, NamesTheKeyAndWhatWasExpected) {
  EXPECT_THAT(error_with({{"model", nullptr}}), HasSubstr("tokenizer.json: model: expected a value, found nothing"));
  EXPECT_THAT(error_with({{"model", {{"ignore_merges", 1}}}}),
              HasSubstr("model.ignore_merges: expected true or false, found 1"));
  EXPECT_THAT(error_with({{"pre_tokenizer", {{"type", 3}}}}),
              HasSubstr("pre_tokenizer.type: expected a string, found 3"));
  EXPECT_THAT(error_with({{"pre_tokenizer", {{"type", "ByteLevel"}}}}),
              HasSubstr("pre_tokenizer.add_prefix_space: expected a value, found nothing"));
  EXPECT_THAT(error_with({{"added_tokens", {token("x"), {{"content", true}}}}}),
              HasSubstr("added_tokens[1].content: expected a string, found true"));
  EXPECT_THAT(error_with({{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Replace"}}}}}}}),
              HasSubstr("normalizer.normalizers[0].pattern: expected a value"));
}

TEST(TokenizerLoad, NamesTheComponentThatIsNotSupported) {
  EXPECT_THAT(error_with({{"model", {{"type", "WordPiece"}}}}), HasSubstr("model: model 'WordPiece' is not supported"));
  EXPECT_THAT(error_with({{"model", {{"type", "Unigram"}, {"vocab", json::parse(R"([["a", -1.5]])")}}}}),
              HasSubstr("model: model 'Unigram' is not supported; this version knows BPE"));
  EXPECT_THAT(
      error_with({{"pre_tokenizer", {{"type", "UnicodeScripts"}}}}),
      HasSubstr("pre_tokenizer: pre-tokenizer 'UnicodeScripts' is not supported; this version knows ByteLevel"));
  EXPECT_THAT(error_with({{"normalizer", {{"type", "Precompiled"}}}}), HasSubstr("normalizer 'Precompiled' is not"));
  EXPECT_THAT(error_with({{"decoder", {{"type", "WordPiece"}}}}), HasSubstr("decoder 'WordPiece' is not supported"));
  EXPECT_THAT(error_with({{"decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "CTC"}}}}}}}),
              HasSubstr("decoder.decoders[0]: decoder 'CTC' is not supported"));
  EXPECT_THAT(error_with({{"post_processor", {{"type", "PairProcessing"}}}}),
              HasSubstr("post-processor 'PairProcessing' is not supported; this version knows ByteLevel"));
  EXPECT_THAT(error_with({{"model", {{"dropout", 0.1}}}}),
              HasSubstr("model.dropout: expected null or 0 (random merges"));
}

TEST(TokenizerLoad, RefusesAMalformedVocabulary) {
  EXPECT_THAT(error_with({{"model", {{"vocab", {{"x", -1}}}}}}),
              HasSubstr("model.vocab[\"x\"]: expected a whole number"));
  EXPECT_THAT(error_with({{"model", {{"vocab", {{"x", 1.5}}}}}}), HasSubstr("found 1.5"));
  EXPECT_THAT(error_with({{"model", {{"vocab", {{"x", "1"}}}}}}), HasSubstr("found \"1\""));
  EXPECT_THAT(error_with({{"model", {{"vocab", {{"x", 4294967295u}}}}}}), HasSubstr("found 4294967295"));
  EXPECT_THAT(error_with({{"model", {{"vocab", {{"x", {1}}}}}}}), HasSubstr("found an array"));
  EXPECT_THAT(error_with({{"model", {{"vocab", {"a"}}}}}),
              HasSubstr("model.vocab: expected an object of tokens and ids, found an array"));
  EXPECT_THAT(error_of_text(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})"),
              HasSubstr("model.vocab[\"a\"]: is there twice"));
}

TEST(TokenizerLoad, RefusesMalformedMerges) {
  const auto merges = [](const char* list) { return error_with({{"model", {{"merges", json::parse(list)}}}}); };
  EXPECT_THAT(merges(R"(["a b", "ab"])"),
              HasSubstr("model.merges[1]: expected \"left right\" or [\"left\", \"right\"]"));
  EXPECT_THAT(merges(R"(["a b c"])"), HasSubstr("model.merges[0]"));
  EXPECT_THAT(merges(R"([["a", "b", "c"]])"), HasSubstr("found an array of 3"));
  EXPECT_THAT(merges(R"([["a"]])"), HasSubstr("found an array of 1"));
  EXPECT_THAT(merges(R"([["a", 1]])"), HasSubstr("model.merges[0]"));
  EXPECT_THAT(merges("[3]"), HasSubstr("found 3"));
  EXPECT_THAT(merges(R"([["b", "a"]])"), HasSubstr("model.merges[0]: expected tokens of model.vocab, found \"ba\""));
  EXPECT_THAT(merges(R"([["a", "x"]])"), HasSubstr("found \"x\""));
  EXPECT_THAT(error_with({{"model", {{"continuing_subword_prefix", "##"}}}}),
              HasSubstr("model.merges[0]: expected a right half after continuing_subword_prefix \"##\", found \"b\""));
  EXPECT_THAT(merges("\"a b\""), HasSubstr("model.merges: expected an array, found \"a b\""));
}

TEST(TokenizerLoad, RefusesARegularExpressionThatCannotBeUsed) {
  const auto split = [](const char* pattern) {
    return error_with(
        {{"pre_tokenizer",
          {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}}}});
  };
  EXPECT_THAT(split("(a"), HasSubstr("pre_tokenizer.pattern.Regex: not a valid regular expression"));
  EXPECT_THAT(split("a\\Kb"), HasSubstr("\\K at offset 1 of the regular expression is not supported"));
  EXPECT_THAT(split(std::string(65537, 'a').c_str()),
              HasSubstr("a regular expression of 65537 bytes; the limit is 65536"));
  EXPECT_THAT(split("\\p{NoSuchScript}"), HasSubstr("not a valid regular expression"));
}

TEST(TokenizerLoad, NamesWhatIsWrongWithMetaspace) {
  const auto metaspace = [](json options) {
    options["type"] = "Metaspace";
    return error_with({{"pre_tokenizer", options}, {"decoder", {{"type", "Sequence"}, {"decoders", {options}}}}});
  };
  EXPECT_EQ(metaspace({{"replacement", "_"}, {"str_rep", "_"}, {"add_prefix_space", false}}), "no error");
  EXPECT_THAT(metaspace({{"replacement", "__"}}),
              HasSubstr("pre_tokenizer.replacement: expected one character, found"));
  EXPECT_THAT(metaspace({{"replacement", ""}}), HasSubstr("expected one character, found \"\""));
  EXPECT_THAT(metaspace({{"replacement", "_"}, {"prepend_scheme", "last"}}),
              HasSubstr("pre_tokenizer.prepend_scheme: expected first, always or never, found \"last\""));
  EXPECT_THAT(metaspace({{"replacement", "_"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}),
              HasSubstr("prepend_scheme: expected \"never\" beside add_prefix_space false, found \"first\""));
}

TEST(TokenizerLoad, NamesWhatIsWrongWithSplitsAndDecoders) {
  EXPECT_THAT(error_with({{"pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}}}}),
              HasSubstr("pre_tokenizer.delimiter: expected one character, found \"ab\""));
  EXPECT_THAT(error_with({{"pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Merged"}}}}),
              HasSubstr("pre_tokenizer.behavior: expected Removed, Isolated, MergedWithPrevious"));
  EXPECT_THAT(error_with({{"normalizer", {{"type", "Strip"}, {"strip_left", true}}}}),
              HasSubstr("normalizer.strip_right: expected a value, found nothing"));
  EXPECT_THAT(error_with({{"decoder", {{"type", "BPEDecoder"}, {"suffix", ""}}}}),
              HasSubstr("decoder.suffix: expected a text that is not empty"));
  EXPECT_THAT(error_with({{"post_processor", {{"type", "BertProcessing"}, {"cls", {"<s>"}}, {"sep", {"</s>", 4}}}}}),
              HasSubstr("post_processor.cls: expected a token and its id, found an array"));
}

TEST(TokenizerLoad, RefusesAnAddedTokenThatTheNormalizerTakesAway) {
  json spaces = token("  ");
  spaces["normalized"] = true;
  const json strip = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  EXPECT_THAT(error_with({{"added_tokens", {spaces}}, {"normalizer", strip}}),
              HasSubstr("added token \"  \": the normalizer removes all of it, so it can never match"));
}

TEST(TokenizerLoad, RefusesATemplateOfWhatIsNoToken) {
  const auto template_of = [](const char* single, const char* ids) {
    const json tokens = {{"<s>", {{"id", "<s>"}, {"ids", json::parse(ids)}, {"tokens", {"<s>"}}}}};
    return error_with(
        {{"post_processor",
          {{"type", "TemplateProcessing"}, {"single", json::parse(single)}, {"special_tokens", tokens}}}});
  };
  const char* start = R"([{"SpecialToken": {"id": "<s>", "type_id": 0}}])";
  EXPECT_EQ(template_of(start, "[3]"), "no error");
  EXPECT_THAT(template_of(start, "[-3]"), HasSubstr("expected a whole number from 0 to 4294967295, found -3"));
  EXPECT_THAT(template_of(start, "[4294967295]"), HasSubstr("expected the id of a token, found 4294967295"));
  EXPECT_THAT(template_of(R"([{"Sequence": {"id": "B", "type_id": 0}}])", "[3]"),
              HasSubstr("single[0].Sequence.id: expected \"A\", the only text of a single one, found \"B\""));
}

TEST(TokenizerLoad, RefusesATemplateWithAnUnknownToken) {
  const json single = {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}};
  EXPECT_THAT(error_with({{"post_processor",
                           {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", json::object()}}}}),
              HasSubstr("post_processor.single[0].SpecialToken.id: expected a token of special_tokens, found \"<s>\""));
}

TEST(TokenizerConfig, GivesNamedTokensInBothSpellings) {
  const auto tokenizer = load_with_config(json::object(), {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}});
  EXPECT_EQ(tokenizer.bos_id(), 3);
  EXPECT_EQ(tokenizer.eos_id(), 4);
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_EQ(tokenizer.encode("a</s>b", false), (std::vector<std::int32_t>{0, 4, 1}));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{0, 4}, /*skip_special_tokens=*/true), "a");
}

TEST(TokenizerConfig, MakesListedTokensSpecial) {
  const auto tokenizer = load_with_config(json::object(), {{"additional_special_tokens", {"</s>", "[NEW]"}}});
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_EQ(tokenizer.token_id("[NEW]"), std::nullopt);
}

TEST(TokenizerConfig, LeavesNamedTokensAloneThatNoModelKnows) {
  const auto tokenizer = load_with_config(json::object(), {{"pad_token", "[PAD]"}, {"bos_token", nullptr}});
  EXPECT_EQ(tokenizer.token_id("[PAD]"), std::nullopt);
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
}

TEST(TokenizerConfig, AddsDeclaredTokensInTheOrderOfTheirIds) {
  json declared;
  for (int i = 0; i < 12; ++i)
    declared[std::to_string(5 + i)] = {{"content", std::string(1, static_cast<char>('A' + i))}};
  const auto tokenizer = load_with_config(json::object(), {{"added_tokens_decoder", declared}});
  EXPECT_EQ(tokenizer.token_id("A"), 5);
  EXPECT_EQ(tokenizer.token_id("L"), 16);  // 6: sorted as text, "16" before "5"
  EXPECT_EQ(tokenizer.vocab_size(), 17u);
}

TEST(TokenizerConfig, GivesTheChatTemplate) {
  EXPECT_EQ(load_with_config(json::object(), json::object()).chat_template(), "");
  EXPECT_EQ(load_with_config(json::object(), {{"chat_template", "{{ x }}"}}).chat_template(), "{{ x }}");
  EXPECT_EQ(Tokenizer::load(test::golden_dir() / "qwen_style").chat_template(), "{{ messages }}");
  const test::TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"chat_template": "old"})");
  folder.write("chat_template.jinja", "new");
  EXPECT_EQ(Tokenizer::load(folder.path()).chat_template(), "new");
}

TEST(TokenizerConfig, IsCheckedLikeTheTokenizer) {
  const test::TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"eos_token": {"special": true}})");
  EXPECT_THAT(load_error(folder.path()), HasSubstr("tokenizer_config.json: eos_token.content: expected a value"));
  folder.write("tokenizer_config.json", "{");
  EXPECT_THAT(load_error(folder.path()), HasSubstr("tokenizer_config.json: not JSON"));
}

TEST(Tokenizer, RefusesATextOfMoreThanAGigabyte) {
  constexpr std::size_t kBytes = (std::size_t{1} << 30) + 1;
  void* pages =
      ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);  // never touched
  ASSERT_NE(pages, MAP_FAILED);
  const auto tokenizer = load_with_config(json::object(), json::object());
  try {
    tokenizer.encode(std::string_view(static_cast<const char*>(pages), kBytes), /*add_special_tokens=*/true);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a text of 1073741825 bytes cannot be tokenized; the limit is 1073741824");
  }
  ::munmap(pages, kBytes);
}

TEST(Tokenizer, NamesItsTokens) {
  const auto tokenizer = load_with_config({{"added_tokens", {token("<x>")}}}, json::object());
  EXPECT_EQ(tokenizer.token_id("ab"), 2);
  EXPECT_EQ(tokenizer.token_id("<x>"), 5);
  EXPECT_EQ(tokenizer.token_id("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.token(2), "ab");
  EXPECT_EQ(tokenizer.token(5), "<x>");
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.token(6), std::nullopt);
  EXPECT_FALSE(tokenizer.is_special(5));
  EXPECT_EQ(tokenizer.vocab_size(), 6u);
}

TEST(Tokenizer, SaysSoWhenTheUnknownTokenIsUnknown) {
  const auto tokenizer = load_with_config({{"model", {{"unk_token", "<unk>"}}}}, json::object());
  EXPECT_EQ(tokenizer.encode("ab", false), (std::vector<std::int32_t>{2}));
  EXPECT_EQ(error_of([&] { tokenizer.encode("abc", false); }),
            "the text has a character that is not a token, and unk_token '<unk>' is not a token either");
}

}  // namespace
}  // namespace mortise
