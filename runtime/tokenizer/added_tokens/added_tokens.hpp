// runtime/tokenizer/added_tokens/added_tokens.hpp: the added tokens, which are cut out of a text before the model sees
// it. Tokens with `normalized` are searched in the normalised text, in their own normalised form; the others in the
// original text. Decoding can skip `special` tokens.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokenizer/added_tokens/added_token_matcher.hpp"
#include "tokenizer/file/config_node.hpp"
#include "tokenizer/model/vocabulary.hpp"
#include "tokenizer/normalizer/normalizer.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/text_ranges.hpp"

namespace mortise::tokenizer {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not found inside a word
  bool lstrip = false;       // swallows white space on its left
  bool rstrip = false;       // swallows white space on its right
  bool normalized = false;
  bool special = false;

  bool operator==(const AddedToken&) const = default;
};

AddedToken read_added_token(const ConfigNode& node);

// The added tokens of a tokenizer. Immutable and thread-safe after finish(). Invariant: each id names one token. A text
// that was added several times has the id of the last addition.
class AddedTokens {
 public:
  // A part of a text: a token, or (id < 0) text for the next stage.
  struct Section {
    std::string_view text;
    std::int32_t id;
  };

  // A token that the model has keeps the model's id. Others get consecutive ids after the model's, as in `tokenizers`.
  // A token that is added again is replaced, but stays special if it was special before, or is special anywhere in
  // `tokens`.
  void add(std::span<const AddedToken> tokens, const Vocabulary& vocabulary);
  // Call after the last add(). `normalizer` may be null. Throws an Error if it leaves nothing of a token.
  void finish(const Normalizer* normalizer);

  // Replaces `sections` by the parts of `text`, as views into it. Special tokens are found only where `special` covers
  // them completely, other tokens everywhere.
  // REQUIRES: valid UTF-8.
  void split_raw(std::string_view text, const TextRanges& special, std::vector<Section>& sections) const {
    split(text, raw_, special, sections);
  }
  void split_normalized(std::string_view text, const TextRanges& special, std::vector<Section>& sections) const {
    split(text, normalized_, special, sections);
  }
  // Finds the special tokens with `normalized` where they are spelled out in `text`.
  void find_special_normalized(std::string_view text, const TextRanges& special,
                               std::vector<AddedTokenMatcher::Found>& found) const;
  // The position after the first character of each special token that `text` spells, ascending.
  std::vector<std::size_t> cuts_within_special(std::string_view text) const;

  std::optional<std::int32_t> find(std::string_view content) const;
  // Null if `id` is not an added token.
  const AddedToken* token(std::int32_t id) const;
  std::int32_t max_id() const;

 private:
  void split(std::string_view text, const AddedTokenMatcher& matcher, const TextRanges& special,
             std::vector<Section>& sections) const;
  bool is_single_word(std::string_view text, const AddedTokenMatcher::Found& found) const;

  void add(const AddedToken& token, const Vocabulary& vocabulary);

  std::map<std::int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::int32_t max_given_id_ = -1;
  std::unordered_set<std::string> special_texts_;
  std::vector<AddedToken> special_;  // in the order of add(); if two have one text, the first is found
  std::vector<AddedToken> plain_;
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
  AddedTokenMatcher special_written_;     // all special tokens as they are written
  AddedTokenMatcher special_normalized_;  // those of them with `normalized`
  std::optional<Regex> word_;             // compiled only for tokens with single_word
};

}  // namespace mortise::tokenizer
