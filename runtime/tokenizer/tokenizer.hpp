// runtime/tokenizer/tokenizer.hpp: converts text to token ids and back, by the tokenizer.json of a Hugging Face folder
// or by the tokenizer of a GGUF file, which is translated to such a file.
// The stages are those of the file: added tokens are cut out, then normalizer, pre_tokenizer, model and post_processor;
// decoder for the way back. The ids equal those of the `tokenizers` package for the same file. In addition, invalid
// UTF-8, which Python strings cannot hold, becomes U+FFFD first (one for each maximal invalid part). `truncation` and
// `padding` of the file are ignored, so a prompt is never cut silently. Immutable after load(), and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text_segment.hpp"

namespace mortise {

// A loaded tokenizer. Invariant: results depend on the file and the arguments alone. Immutable after load(), and
// thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.json and, if they exist, tokenizer_config.json and chat_template.jinja; or, if `model_dir` is a
  // GGUF file, its keys tokenizer.*. Throws an Error that names file and key if something is missing, malformed or not
  // supported.
  static Tokenizer load(const std::filesystem::path& model_dir);
  // Throws an Error if the folder has no tokenizer.json, or the GGUF file no tokenizer. Reads no tokens.
  static void check_is_in(const std::filesystem::path& model_dir);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special_tokens` adds the tokens of the post-processor (usually a first token). Special tokens that are spelled
  // out in the text are recognised in any case. Takes O(n log n) time. Throws an Error if a regular expression of the
  // file fails on the text or takes too long, if replacements lengthen the text too much, or if the vocabulary cannot
  // express a character.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // The same for a text in which special tokens are found in some segments only. A special token that is spelled out
  // elsewhere, or across the end of a segment, becomes ordinary tokens. Added tokens that are not special are found
  // everywhere. If no special token is spelled out in the other segments, the ids are those of the whole text. Once
  // there are more than `enough` ids, the call may return early with more than `enough` ids, but not those of the whole
  // text.
  std::vector<std::int32_t> encode(const SegmentedText& segments, bool add_special_tokens,
                                   std::size_t enough = static_cast<std::size_t>(-1)) const;

  // Returns the position after the first character of each special token that the text spells, ascending. A text that
  // is cut there spells none. REQUIRES: valid UTF-8.
  std::vector<std::size_t> cuts_within_special_tokens(std::string_view text) const;

  // Returns the text, which is always valid UTF-8. Unknown ids are left out.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  std::optional<std::int32_t> token_id(std::string_view token) const;
  // Returns the token in the file's spelling ("Ġthe"); nullopt if there is none. Valid as long as the tokenizer.
  std::optional<std::string_view> token(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  // Returns the largest id plus one, including added tokens.
  std::size_t vocab_size() const;

  // Return the ids that tokenizer_config.json names.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  // The Jinja text of chat_template.jinja, otherwise of tokenizer_config.json (the template named "default" if there
  // are several); empty if there is none.
  const std::string& chat_template() const;
  // The texts of special tokens by their names in templates: bos_token, eos_token, unk_token, ..
  const std::map<std::string, std::string>& special_token_texts() const;
  // tokenizer_config.json as one JSON object, or what stands for it in a GGUF file; "{}" if there is none.
  const std::string& config() const;
  // Returns the tokenizer's part of the numerics id, "tokenizer HASH; template HASH". It covers all bytes of
  // tokenizer.json, the members of tokenizer_config.json except chat_template, and chat_template().
  const std::string& fingerprint() const;

  struct Parts;  // the stages; private to this folder

 private:
  friend class IncrementalDecoder;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace mortise
