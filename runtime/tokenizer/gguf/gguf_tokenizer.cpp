#include "tokenizer/gguf/gguf_tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/gguf/keys.hpp"
#include "error.hpp"
#include "hasher.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/gguf/pre_tokenizers.hpp"
#include "tokenizer/gguf/score_merges.hpp"

namespace mortise::tokenizer {
namespace {

using nlohmann::json;

const std::string kPrefix = "tokenizer.ggml.";

// The types of tokens. The numbers are those of the format.
enum class TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Reads the keys of one file. Used by one thread.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : keys_(file), where_(file.path().native()) {}

  GgufTokenizer read() {
    const auto model = keys_.text(kPrefix + "model");
    if (!model) {
      fail(
          "{}: has no key '{}model', so it has no tokenizer; use a file with one, or the model's safetensors "
          "checkpoint",
          where_, kPrefix);
    }
    const bool pieces = *model == "llama";
    if (!pieces && *model != "gpt2") {
      keys_.refuse(kPrefix + "model",
                   "served are gpt2 (byte-level BPE) and llama (SentencePiece BPE); use another file of the model");
    }
    out_.file.path = where_;
    read_tokens();
    read_named_tokens(pieces);
    json& document = out_.file.document;
    document = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
    const bool add_bos = pieces ? read_pieces() : read_bytes();
    document["added_tokens"] = added_tokens();
    document["post_processor"] = post_processor(add_bos);
    refuse_others();
    out_.file.hash = hash();
    return std::move(out_);
  }

 private:
  std::string key(const char* name) const { return kPrefix + name; }

  void read_tokens() {
    const GgufArray* tokens = keys_.array(key("tokens"));
    if (tokens == nullptr) fail("{}: has no key '{}tokens'; convert the model again", where_, kPrefix);
    if (!tokens->of_strings() || tokens->size() == 0) {
      keys_.refuse(key("tokens"), "expected an array of strings; convert the model again");
    }
    tokens_ = tokens->strings();
    types_.assign(tokens_.size(), TokenType::kNormal);
    if (const GgufArray* types = numbers_of_tokens("token_type")) {
      for (std::size_t i = 0; i < types_.size(); ++i) {
        const double type = types->number(i);
        if (!(type >= 1 && type <= 6)) {
          keys_.refuse(key("token_type"),
                       fmt::format("token {} has type {}; expected 1 to 6; convert the model again", i, type));
        }
        types_[i] = static_cast<TokenType>(type);
      }
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!is_valid_utf8(tokens_[i])) {
        keys_.refuse(key("tokens"), fmt::format("token {} is not UTF-8; convert the model again", i));
      }
      // Converters fill holes with such tokens, which no text has.
      if (types_[i] == TokenType::kUnused) continue;
      out_.file.vocabulary.add(tokens_[i], static_cast<std::int32_t>(i));
    }
    if (const auto twice = out_.file.vocabulary.finish()) {
      keys_.refuse(key("tokens"), fmt::format("{} is there twice; convert the model again", quote(*twice)));
    }
    out_.file.has_vocabulary = true;
  }

  // An array of numbers with one for each token; nullptr: there is none.
  const GgufArray* numbers_of_tokens(const char* name) {
    const GgufArray* array = keys_.array(key(name));
    if (array != nullptr && (array->of_strings() || array->size() != tokens_.size())) {
      keys_.refuse(key(name),
                   fmt::format("expected a number for each of {} tokens; convert the model again", tokens_.size()));
    }
    return array;
  }

  std::optional<std::size_t> token_id(const char* name) {
    const auto id = keys_.whole(key(name), UINT32_MAX);
    if (!id || *id == UINT32_MAX) return std::nullopt;  // -1: none
    if (*id >= tokens_.size()) {
      keys_.refuse(key(name), fmt::format("there are {} tokens; convert the model again", tokens_.size()));
    }
    return static_cast<std::size_t>(*id);
  }

  bool is_special(std::size_t id) const {
    return types_[id] == TokenType::kControl || types_[id] == TokenType::kUnknown;
  }

  // The ids that SentencePiece has by default are llama.cpp's defaults, too.
  void read_named_tokens(bool pieces) {
    const auto or_usual = [&](std::optional<std::size_t> id, std::size_t usual) {
      return !id && pieces && usual < tokens_.size() && is_special(usual) ? usual : id;
    };
    unk_ = or_usual(token_id("unknown_token_id"), 0);
    bos_ = or_usual(token_id("bos_token_id"), 1);
    eos_ = or_usual(token_id("eos_token_id"), 2);
    const auto pad = token_id("padding_token_id");
    const auto name = [&](const char* role, std::optional<std::size_t> id) {
      if (id) out_.config[role] = std::string(tokens_[*id]);
    };
    out_.config = json::object();
    name("bos_token", bos_);
    name("eos_token", eos_);
    // A named token counts as special. Some files name an ordinary token that nothing uses.
    if (unk_ && is_special(*unk_)) name("unk_token", unk_);
    if (pad && is_special(*pad)) name("pad_token", pad);
    if (const auto text = keys_.text("tokenizer.chat_template")) out_.config["chat_template"] = std::string(*text);
  }

  // Byte-level BPE. Returns whether a text gets a first token.
  bool read_bytes() {
    const auto name = keys_.text(key("pre"));
    if (!name) {
      fail("{}: has no key '{}pre', the name of its pre-tokenizer; convert the model again with a current llama.cpp",
           where_, kPrefix);
    }
    std::optional<NamedPreTokenizer> pre = find_pre_tokenizer(*name);
    if (!pre) {
      keys_.refuse(key("pre"),
                   fmt::format("known are {}; use the model's safetensors checkpoint", known_pre_tokenizers()));
    }
    const GgufArray* merges = keys_.array(key("merges"));
    if (merges == nullptr || !merges->of_strings()) {
      fail("{}: has no key '{}merges' with a list of strings; convert the model again", where_, kPrefix);
    }
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = merges->strings()[i];
      // From the second byte on: a half may be a space itself in no byte-level vocabulary, but is never empty.
      const std::size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size() || merge.find(' ', space + 1) != merge.npos) {
        keys_.refuse(key("merges"), fmt::format("merge {} is {}; expected two tokens with a space between; convert the "
                                                "model again",
                                                i, quote(merge)));
      }
      out_.file.merges.add(merge.substr(0, space), merge.substr(space + 1));
    }
    json& document = out_.file.document;
    document["normalizer"] = std::move(pre->normalizer);
    document["pre_tokenizer"] = std::move(pre->pre_tokenizer);
    document["decoder"] = {
        {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    document["model"] = {{"type", "BPE"}, {"ignore_merges", pre->ignore_merges}};
    out_.file.has_merges = true;
    keys_.pass(key("scores"));            // some converters write zeros
    keys_.pass(key("add_space_prefix"));  // has no effect on byte-level BPE in llama.cpp either
    return pre->add_bos;
  }

  // SentencePiece BPE. Returns whether a text gets a first token.
  bool read_pieces() {
    if (const auto pre = keys_.text(key("pre")); pre && *pre != "default") {
      keys_.refuse(key("pre"), "expected 'default' with SentencePiece; use the model's safetensors checkpoint");
    }
    const GgufArray* array = numbers_of_tokens("scores");
    if (array == nullptr) fail("{}: has no key '{}scores'; convert the model again", where_, kPrefix);
    std::vector<float> scores(tokens_.size());
    std::vector<bool> is_piece(tokens_.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = static_cast<float>(array->number(i));
      if (!std::isfinite(scores[i])) {
        keys_.refuse(key("scores"), fmt::format("the score of token {} is not finite; convert the model again", i));
      }
      is_piece[i] = types_[i] == TokenType::kNormal || types_[i] == TokenType::kUserDefined;
    }
    out_.file.merges = merges_of_scores(out_.file.vocabulary, tokens_, scores, is_piece, where_);
    out_.file.has_merges = true;
    keys_.pass(key("merges"));  // some converters write them as well
    for (const char* name : {"remove_extra_whitespaces", "treat_whitespace_as_suffix"}) {
      if (keys_.truth(key(name)).value_or(false)) {
        keys_.refuse(key(name), "expected false; use the model's safetensors checkpoint");
      }
    }
    if (!keys_.truth(key("escape_whitespaces")).value_or(true)) {
      keys_.refuse(key("escape_whitespaces"), "expected true; use the model's safetensors checkpoint");
    }
    const bool prefix = keys_.truth(key("add_space_prefix")).value_or(true);
    json normalizers = json::array(), decoders = json::array();
    if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
    normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
    decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}});
    decoders.push_back({{"type", "ByteFallback"}});
    decoders.push_back({{"type", "Fuse"}});
    if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 0u}});
    json& document = out_.file.document;
    document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    document["pre_tokenizer"] = nullptr;
    document["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
    document["model"] = {{"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", true}};
    if (unk_) document["model"]["unk_token"] = std::string(tokens_[*unk_]);
    return true;
  }

  // Tokens that are found in a text before it is divided. The file does not say whether they take spaces beside them.
  json added_tokens() const {
    json list = json::array();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const bool special = is_special(i);
      if ((!special && types_[i] != TokenType::kUserDefined) || tokens_[i].empty()) continue;
      list.push_back({{"id", i},
                      {"content", std::string(tokens_[i])},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special}});
    }
    return list;
  }

  json post_processor(bool usual_bos) {
    const bool add_bos = keys_.truth(key("add_bos_token")).value_or(usual_bos);
    const bool add_eos = keys_.truth(key("add_eos_token")).value_or(false);
    json parts = json::array(), tokens = json::object();
    const auto add = [&](const char* name, std::optional<std::size_t> id) {
      if (!id) {
        fail("{}: {} asks for a token that '{}' does not name; convert the model again", where_, quote(key(name)),
             key(name == std::string_view("add_bos_token") ? "bos_token_id" : "eos_token_id"));
      }
      const std::string text(tokens_[*id]);
      parts.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0u}}}});
      tokens[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
    };
    if (add_bos) add("add_bos_token", bos_);
    parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0u}}}});
    if (add_eos) add("add_eos_token", eos_);
    if (!add_bos && !add_eos) return nullptr;
    return {{"type", "TemplateProcessing"}, {"single", parts}, {"pair", parts}, {"special_tokens", tokens}};
  }

  // Ids of other tokens (fim, cls, mask ...) change nothing here.
  void refuse_others() {
    for (const auto& [name, value] : keys_.file().keys()) {
      if (name.ends_with("_token_id") || name.ends_with("_token_ids")) keys_.pass(name);
    }
    keys_.pass(key("token_type_count"));
    keys_.pass(key("add_sep_token"));  // between two texts, which no command takes
    keys_.refuse_unread(kPrefix,
                        "this key is not known, and could change how texts are divided; use the model's "
                        "safetensors checkpoint");
  }

  // Of everything that decides ids and texts but the chat template, as of tokenizer.json.
  std::string hash() const {
    Hasher hasher;
    hasher.add(out_.file.document.dump());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      hasher.add(tokens_[i]);
      hasher.add(static_cast<std::uint64_t>(types_[i]));
    }
    for (std::size_t i = 0; i < out_.file.merges.size(); ++i) {
      hasher.add(out_.file.merges.left(i));
      hasher.add(out_.file.merges.right(i));
    }
    return hasher.hex();
  }

  GgufKeys keys_;
  const std::string where_;
  GgufTokenizer out_;
  std::vector<std::string_view> tokens_;
  std::vector<TokenType> types_;
  std::optional<std::size_t> unk_, bos_, eos_;
};

}  // namespace

GgufTokenizer read_gguf_tokenizer(const std::filesystem::path& path) {
  const GgufFile file(path);
  return Reader(file).read();
}

void check_gguf_has_tokenizer(const std::filesystem::path& path) {
  const GgufFile file(path);
  GgufKeys keys(file);
  if (keys.has(kPrefix + "model")) return;
  fail("{}: has no key '{}model', so it has no tokenizer; use a file with one, or the model's safetensors checkpoint",
       path.native(), kPrefix);
}

}  // namespace mortise::tokenizer
