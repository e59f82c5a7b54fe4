// runtime/tokenizer/tokenizer.hpp: text to token ids and back, after a Hugging Face folder's tokenizer.json.
// The stages are those of the file: added tokens are cut out, then normalizer, pre_tokenizer, model, post_processor;
// and back through decoder. The ids are those of the `tokenizers` package for the same file, with one rule added for
// texts that Python cannot hold: invalid UTF-8 becomes U+FFFD (one for each maximal invalid part) before anything else.
// `truncation` and `padding` of the file are ignored: a prompt is never cut silently.
// Immutable after load(); all functions may be called by many threads at once.
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

class Tokenizer {
 public:
  // Reads tokenizer.json, and tokenizer_config.json and chat_template.jinja if they are there; no other file. Throws
  // Error that names file and key when something is missing, malformed or not supported.
  static Tokenizer load(const std::filesystem::path& model_dir);
  // Throws an Error when the folder has no tokenizer.json; reads nothing.
  static void check_is_in(const std::filesystem::path& model_dir);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `add_special_tokens` adds what the post-processor adds (usually a first token); special tokens that are spelled out
  // in the text are recognised either way. Takes O(n log n) time. Throws Error when a regular expression of the file
  // fails on the text or takes too long, when its replacements make far more of the text than it was, or when the text
  // has characters that the vocabulary cannot express.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // The same for a text in which special tokens are found in some parts alone. What spells one elsewhere, or across a
  // seam, becomes ordinary tokens. Tokens that were added without being special are found everywhere. Where no special
  // token is spelled out in the other parts, the ids are those of the whole text. Once there are more than `enough`
  // ids, it may return: then the ids are more than `enough`, but not those of the whole text.
  std::vector<std::int32_t> encode(const SegmentedText& segments, bool add_special_tokens,
                                   std::size_t enough = static_cast<std::size_t>(-1)) const;

  // Behind the first character of each special token that the text spells, ascending: cut there, it spells none.
  // REQUIRES: valid UTF-8.
  std::vector<std::size_t> cuts_within_special_tokens(std::string_view text) const;

  // Always valid UTF-8. Ids that are no tokens are left out.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  std::optional<std::int32_t> token_id(std::string_view token) const;
  // The token as the file spells it ("Ġthe"); nullopt if there is none. Valid as long as the tokenizer.
  std::optional<std::string_view> token(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  // One more than the largest id, added tokens included.
  std::size_t vocab_size() const;

  // From tokenizer_config.json.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  // The Jinja text of chat_template.jinja or else of tokenizer_config.json (of several templates the one named
  // "default"); empty if there is none.
  const std::string& chat_template() const;
  // The texts of special tokens by name, as templates know them: bos_token, eos_token, unk_token ...
  const std::map<std::string, std::string>& special_token_texts() const;
  // The tokenizer's share of the numerics id, "tokenizer HASH; template HASH": of all bytes of tokenizer.json and the
  // members of tokenizer_config.json other than chat_template, and of chat_template().
  const std::string& fingerprint() const;

  struct Parts;  // the stages; private to this folder

 private:
  friend class IncrementalDecoder;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace mortise
