// Builds a Tokenizer from the files of a folder, or from a GGUF file; each stage reads its member of tokenizer.json.
#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "error.hpp"
#include "hasher.hpp"
#include "json/is_there.hpp"
#include "tokenizer/gguf/gguf_tokenizer.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_parts.hpp"

namespace mortise {
namespace {

using namespace tokenizer;

// The members of tokenizer_config.json that name a special token.
constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

AddedToken read_named_token(const ConfigNode& node) {
  AddedToken token;
  if (node.is_string()) {
    token.content = node.as_string();
  } else {
    token = read_added_token(node);
  }
  token.special = true;
  return token;
}

// Like transformers, adds the tokens that only tokenizer_config.json declares: those of added_tokens_decoder, by id,
// and the named ones as special tokens. Named tokens that are not in the vocabulary are ignored, because no model was
// trained with them.
void add_configured_tokens(const ConfigNode& config, Tokenizer::Parts& parts) {
  const auto add = [&](const AddedToken& token) {
    if (parts.added_tokens.find(token.content)) return;
    parts.added_tokens.add({&token, 1}, parts.file.vocabulary);
  };
  if (const auto declared = config.find("added_tokens_decoder")) {
    auto tokens = declared->members();
    std::ranges::sort(tokens, {}, [](const auto& member) { return std::pair(member.first.size(), member.first); });
    for (const auto& [id, node] : tokens) add(read_added_token(node));
  }
  const auto add_named = [&](const ConfigNode& node) {
    const AddedToken token = read_named_token(node);
    if (parts.file.vocabulary.find(token.content)) add(token);
  };
  for (const char* key : kNamedTokens) {
    if (const auto node = config.find(key)) add_named(*node);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {  // names in transformers 4 and 5
    const auto list = config.find(key);
    if (!list || !list->is_array()) continue;
    for (const ConfigNode& node : list->elements()) add_named(node);
  }
}

std::optional<std::int32_t> named_id(const ConfigNode& config, const char* key, const Tokenizer::Parts& parts) {
  const auto node = config.find(key);
  if (!node) return std::nullopt;
  const std::string content = read_named_token(*node).content;
  if (const auto id = parts.added_tokens.find(content)) return id;
  return parts.file.vocabulary.find(content);
}

std::map<std::string, std::string> read_special_texts(const ConfigNode& config) {
  std::map<std::string, std::string> texts;
  for (const char* key : kNamedTokens) {
    if (const auto node = config.find(key)) texts[key] = read_named_token(*node).content;
  }
  return texts;
}

std::string read_chat_template(const ConfigNode& config) {
  const auto node = config.find("chat_template");
  if (!node) return {};
  if (node->is_string()) return node->as_string();
  for (const ConfigNode& named : node->elements()) {
    if (named.at("name").as_string() == "default") return named.at("template").as_string();
  }
  return {};
}

std::string make_fingerprint(const Tokenizer::Parts& parts, nlohmann::json config) {
  if (config.is_object()) config.erase("chat_template");
  return fmt::format("tokenizer {}; template {}", hash_of(parts.file.hash + config.dump()),
                     hash_of(parts.chat_template));
}

void read_stages(Tokenizer::Parts& parts) {
  const ConfigNode root = parts.file.root();
  parts.model = make_model(parts.file);  // first, because "not BPE" explains more than an unknown normalizer
  if (const auto node = root.find("normalizer")) parts.normalizer = make_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) parts.pre_tokenizer = make_pre_tokenizer(*node);
  if (const auto node = root.find("post_processor")) parts.post_processor = make_post_processor(*node);
  const auto decoder = root.find("decoder");
  parts.decoders = make_decoder_chain(decoder ? &*decoder : nullptr);
  if (const auto tokens = root.find("added_tokens")) {
    std::vector<AddedToken> added;
    for (const ConfigNode& node : tokens->elements()) added.push_back(read_added_token(node));
    parts.added_tokens.add(added, parts.file.vocabulary);
  }
}

// What the files of a tokenizer have. `where`: of the configuration, for messages.
struct Source {
  TokenizerFile file;
  nlohmann::json config;
  std::string where;
  std::optional<std::string> chat_template;  // of a file of its own
};

Source read_folder(const std::filesystem::path& folder) {
  Source out{.file = read_tokenizer_file(folder / "tokenizer.json"),
             .config = nlohmann::json::object(),
             .where = (folder / "tokenizer_config.json").string(),
             .chat_template = {}};
  if (is_there(out.where)) out.config = read_json_file(out.where);
  if (const auto path = folder / "chat_template.jinja"; is_there(path)) out.chat_template = read_text_file(path);
  return out;
}

Source read_gguf(const std::filesystem::path& path) {
  GgufTokenizer read = read_gguf_tokenizer(path);
  return {.file = std::move(read.file), .config = std::move(read.config), .where = path.string(), .chat_template = {}};
}

}  // namespace

void Tokenizer::check_is_in(const std::filesystem::path& model_dir) {
  if (Checkpoint::is_gguf(model_dir)) {
    check_gguf_has_tokenizer(model_dir);
    return;
  }
  if (is_there(model_dir / "tokenizer.json")) return;
  fail(
      "{}: has no tokenizer.json; download it with the checkpoint, or write one with transformers' "
      "AutoTokenizer.from_pretrained(...).save_pretrained(...)",
      model_dir.string());
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  check_is_in(model_dir);
  Source source = Checkpoint::is_gguf(model_dir) ? read_gguf(model_dir) : read_folder(model_dir);
  auto parts = std::make_unique<Parts>();
  parts->file = std::move(source.file);
  read_stages(*parts);
  parts->file.merges = {};  // the model has them now
  const ConfigNode config(source.config, source.where);
  add_configured_tokens(config, *parts);
  parts->added_tokens.finish(parts->normalizer.get());
  parts->bos_id = named_id(config, "bos_token", *parts);
  parts->eos_id = named_id(config, "eos_token", *parts);
  parts->special_token_texts = read_special_texts(config);
  parts->chat_template = source.chat_template ? *source.chat_template : read_chat_template(config);
  parts->fingerprint = make_fingerprint(*parts, source.config);
  if (source.config.is_object()) parts->config = source.config.dump();
  return Tokenizer(std::move(parts));
}

}  // namespace mortise
