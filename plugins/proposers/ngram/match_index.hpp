// plugins/proposers/ngram/match_index.hpp: one sequence's tokens, and where in them its last tokens stood before.
//
// For each length n of a match there is a hash table from n-gram to the end of its latest occurrence. It holds no keys:
// an entry is compared with the tokens themselves, so that a match is always a true one. The n-grams that end with the
// last token are not in it yet; they get there when the next token comes, and so an n-gram never finds itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mortise::ngram {

struct MatchOptions {
  int32_t min_match = 0;  // 1 <= min_match <= max_match
  int32_t max_match = 0;
  uint64_t hash_seed = 0;  // nobody who sends tokens can know which ones collide
};

class MatchIndex {
 public:
  // REQUIRES: `options` outlives this.
  explicit MatchIndex(const MatchOptions& options);

  // Amortised constant time: a table that is full is built again twice as large.
  void append(int32_t token);
  // What followed the latest of the longest matches, from the first of `out` on; the number of tokens written, all or
  // none. As in LZ77 a copy may run over the end of the tokens into itself: a text that goes in circles goes on so.
  int32_t draft(std::span<int32_t> out) const;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  // Of the heap. At most bytes_per_token() for each token, beside kLeastBytes for each length of a match.
  uint64_t memory_bytes() const;
  static uint64_t bytes_per_token(const MatchOptions& options);
  static constexpr uint64_t kLeastBytes = 64;

 private:
  struct Table {
    std::vector<int32_t> ends;  // of n-grams, 0: empty; a power of two, at most half full
    std::size_t num_used = 0;
  };

  std::size_t find_slot(const Table& table, int32_t length, int32_t end, uint64_t hash) const;
  void insert(Table& table, int32_t length, int32_t end, uint64_t hash);
  void grow(Table& table, int32_t length);
  uint64_t hash_of(int32_t length, int32_t end) const;
  // Calls visit(length, hash) for the n-grams that end before position `end`, the shortest first.
  template <typename Visit>
  void for_each_length(int32_t end, Visit visit) const;

  const MatchOptions& options_;
  std::vector<int32_t> tokens_;
  std::vector<Table> tables_;  // of lengths min_match .. max_match
};

}  // namespace mortise::ngram
