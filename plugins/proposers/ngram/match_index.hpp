// plugins/proposers/ngram/match_index.hpp: one sequence's tokens, and an index that finds where its last tokens
// occurred before.
//
// For each match length n there is a hash table from an n-gram to the end of its latest occurrence. The table holds no
// keys: an entry is compared with the tokens themselves, so a match is never false. The n-grams that end with the last
// token are added only when the next token comes, so an n-gram never finds itself. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mortise::ngram {

struct MatchOptions {
  int32_t min_match = 0;  // 1 <= min_match <= max_match
  int32_t max_match = 0;
  uint64_t hash_seed = 0;  // unknown to clients, so that they cannot provoke collisions
};

// Invariant: the tables have every n-gram of tokens_ except those that end with the last token. Not thread-safe: the
// host makes one call to its proposer at a time.
class MatchIndex {
 public:
  // REQUIRES: `options` outlives this.
  explicit MatchIndex(const MatchOptions& options);

  // Appends in amortised constant time: a full table is rebuilt twice as large.
  void append(int32_t token);
  // Fills `out` with the tokens that followed the latest occurrence of the longest match. Returns the number of tokens
  // written: all or none. As in LZ77 the copy may run past the end of the tokens into itself, so a repeating text goes
  // on repeating.
  int32_t draft(std::span<int32_t> out) const;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  // Returns the heap memory, at most bytes_per_token() for each token, plus kMinBytes for each match length.
  uint64_t memory_bytes() const;
  static uint64_t bytes_per_token(const MatchOptions& options);
  static constexpr uint64_t kMinBytes = 64;

 private:
  struct Table {
    std::vector<int32_t> ends;  // ends of n-grams, 0: empty; the size is a power of two, at most half is used
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
