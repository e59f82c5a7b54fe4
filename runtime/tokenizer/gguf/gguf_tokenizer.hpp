// runtime/tokenizer/gguf/gguf_tokenizer.hpp: the tokenizer of a GGUF file, as the tokenizer.json and
// tokenizer_config.json of the model that the file was converted from. Two kinds are served, by tokenizer.ggml.model:
//   gpt2    byte-level BPE with merges; tokenizer.ggml.pre names the pre-tokenizer (pre_tokenizers.hpp)
//   llama   SentencePiece BPE: the merges follow from the scores of the tokens; byte fallback
// Special are tokens of the types control and unknown; those and user-defined ones are found in a text as they are.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tokenizer/file/tokenizer_file.hpp"

namespace mortise::tokenizer {

struct GgufTokenizer {
  TokenizerFile file;
  nlohmann::json config;  // as tokenizer_config.json: the named tokens and the chat template
};

// Throws an Error that names the file, the key and its place if the keys are damaged or not served. A key
// tokenizer.ggml.* that is not known is refused, since it could change ids.
GgufTokenizer read_gguf_tokenizer(const std::filesystem::path& path);

// Throws an Error if the file has no tokenizer.
void check_gguf_has_tokenizer(const std::filesystem::path& path);

}  // namespace mortise::tokenizer
