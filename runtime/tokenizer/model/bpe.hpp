// runtime/tokenizer/model/bpe.hpp: byte-pair encoding: a piece starts as its characters, and the pair of neighbours
// with the lowest rank (the leftmost of equals) merges until none is left.
//   O(n log n) in the length of the piece, through a heap of candidate pairs, so that a megabyte without a space is no
//   way to stop a server.
// A character that the vocabulary lacks becomes its bytes as "<0x0A>" tokens (byte_fallback, if all are there), else
// unk_token (neighbours as one with fuse_unk), else nothing: as in `tokenizers`, also in what is odd there.
// With affixes, characters behind the first are looked up with continuing_subword_prefix in front, the last one with
// end_of_word_suffix behind; a merge drops the prefix of its right half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/model/merge_table.hpp"
#include "tokenizer/model/model.hpp"

namespace mortise::tokenizer {

class BpeModel final : public Model {
 public:
  BpeModel(const TokenizerFile& file, const ConfigNode& node);

  void tokenize(const PreTokenized& text, std::vector<std::int32_t>& ids) const override;

 private:
  class Word;

  void read_merges(const TokenizerFile& file);
  void read_byte_tokens();
  void read_frequent_characters();
  std::optional<std::int32_t> character_id(std::string_view character) const;
  void start_word(std::string_view piece, Word& word) const;
  // With `unk_pending`, an unknown token stands in front of what comes.
  void add_character(std::string_view character, Word& word, bool& unk_pending) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  bool ignore_merges_;  // a piece that is a token is that token, whatever the merges say
  bool fuse_unk_;
  bool byte_fallback_;
  std::string prefix_;                                // continuing_subword_prefix
  std::string suffix_;                                // end_of_word_suffix
  std::string unk_token_;                             // empty: unknown characters are left out
  std::optional<std::int32_t> unk_id_;                // unset although there is a name: an Error once a text needs it
  std::array<std::int32_t, 256> byte_ids_;            // of "<0x00>" to "<0xFF>", or kNone
  std::vector<std::int32_t> frequent_character_ids_;  // of the first code points: the byte alphabet's are all there
};

}  // namespace mortise::tokenizer
