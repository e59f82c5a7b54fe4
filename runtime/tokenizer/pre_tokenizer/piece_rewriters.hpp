// runtime/tokenizer/pre_tokenizer/piece_rewriters.hpp: pre-tokenizers that change the text of pieces, besides
// splitting. Immutable and thread-safe.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/pre_tokenizer/pre_tokenizer.hpp"

namespace mortise::tokenizer {

// Splits by GPT-2's pattern (optional), then writes each byte as a character of the byte alphabet. Immutable and
// thread-safe.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ConfigNode& node);
  void apply(PreTokenized& text) const override;

 private:
  bool add_prefix_space_;
  std::unique_ptr<const PreTokenizer> split_;  // null with use_regex false
};

// SentencePiece's treatment of spaces, as a pre-tokenizer and as a decoder: each space becomes a visible character,
// another one is put in front, and a word starts with each of them. A value.
struct MetaspaceOptions {
  enum class Prepend { kNever, kFirst, kAlways };
  std::string replacement;  // one character
  Prepend prepend;
  bool split;

  // Reads all spellings since the first release: prepend_scheme, or formerly add_prefix_space; str_rep.
  explicit MetaspaceOptions(const ConfigNode& node);
};

// Replaces spaces by Metaspace's character, and optionally splits before it. Immutable and thread-safe.
class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const ConfigNode& node);
  void apply(PreTokenized& text) const override;

 private:
  MetaspaceOptions options_;
  std::unique_ptr<const PreTokenizer> split_;  // null with split false
};

}  // namespace mortise::tokenizer
