// runtime/tokenizer/gguf/pre_tokenizers.hpp: what the names in tokenizer.ggml.pre stand for: the stages around the
// merges of byte-level BPE, as the tokenizer.json of that model has them. Checked with the ids that llama.cpp keeps for
// the vocabularies of its tests, and with the `tokenizers` package.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace mortise::tokenizer {

struct NamedPreTokenizer {
  nlohmann::json normalizer;  // may be null
  nlohmann::json pre_tokenizer;
  bool ignore_merges = false;  // a piece that is a token becomes that token
  bool add_bos = false;        // unless tokenizer.ggml.add_bos_token says otherwise
};

// nullopt: the name is not known.
std::optional<NamedPreTokenizer> find_pre_tokenizer(std::string_view name);
// The known names, with commas.
std::string known_pre_tokenizers();

}  // namespace mortise::tokenizer
