// runtime/tokenizer/model/bpe.hpp: byte-pair encoding. A piece starts as its characters. The neighbouring pair with the
// lowest rank (the leftmost of equals) merges, until no pair can merge.
// Cost: O(n log n) in the length of the piece, with a heap of candidate pairs, so that a megabyte without a space
// cannot stop a server. A character that is not in the vocabulary becomes its bytes as "<0x0A>" tokens (with
// byte_fallback, if all of them exist), otherwise unk_token (one for a run of such characters with fuse_unk), otherwise
// nothing. Oddities of `tokenizers` are reproduced. With affixes, characters after the first are looked up with
// continuing_subword_prefix, the last one with end_of_word_suffix. A merge drops the prefix of its right half.
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

// A BPE model. Immutable and thread-safe. Invariant: every id in its tables is in the vocabulary.
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
  // `unk_pending`: an unknown token comes before the next one.
  void add_character(std::string_view character, Word& word, bool& unk_pending) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  bool ignore_merges_;  // a piece that is a token becomes that token, regardless of merges
  bool fuse_unk_;
  bool byte_fallback_;
  std::string prefix_;                                // continuing_subword_prefix
  std::string suffix_;                                // end_of_word_suffix
  std::string unk_token_;                             // empty: unknown characters are dropped
  std::optional<std::int32_t> unk_id_;                // nullopt although there is a name: an Error when a text needs it
  std::array<std::int32_t, 256> byte_ids_;            // of "<0x00>" to "<0xFF>", or kNone
  std::vector<std::int32_t> frequent_character_ids_;  // ids of the first code points, which include the byte alphabet
};

}  // namespace mortise::tokenizer
