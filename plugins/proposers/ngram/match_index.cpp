#include "proposers/ngram/match_index.hpp"

#include <algorithm>

namespace mortise::ngram {
namespace {

constexpr std::size_t kFirstSlots = 16;  // of kMinBytes

uint64_t mix(uint64_t hash, int32_t token) {
  // The finaliser of splitmix64: each token changes all bits, also the low bits that choose a slot.
  uint64_t x = hash ^ static_cast<uint32_t>(token);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

MatchIndex::MatchIndex(const MatchOptions& options)
    : options_(options), tables_(static_cast<std::size_t>(options.max_match - options.min_match + 1)) {
  for (Table& table : tables_) table.ends.assign(kFirstSlots, 0);
}

template <typename Visit>
void MatchIndex::for_each_length(int32_t end, Visit visit) const {
  uint64_t hash = options_.hash_seed;
  // Goes backwards from the last token, so that one pass gives the hashes of all lengths.
  for (int32_t length = 1; length <= std::min(end, options_.max_match); ++length) {
    hash = mix(hash, tokens_[static_cast<std::size_t>(end - length)]);
    if (length >= options_.min_match) visit(length, hash);
  }
}

uint64_t MatchIndex::hash_of(int32_t length, int32_t end) const {
  uint64_t hash = options_.hash_seed;
  for (int32_t i = 1; i <= length; ++i) hash = mix(hash, tokens_[static_cast<std::size_t>(end - i)]);
  return hash;
}

// Returns the slot of the n-gram that ends at `end`, or the empty slot where it belongs.
std::size_t MatchIndex::find_slot(const Table& table, int32_t length, int32_t end, uint64_t hash) const {
  const std::size_t mask = table.ends.size() - 1;
  const auto ngram = tokens_.begin() + (end - length);
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const int32_t other = table.ends[slot];
    if (other == 0 || std::equal(ngram, ngram + length, tokens_.begin() + (other - length))) return slot;
  }
}

void MatchIndex::grow(Table& table, int32_t length) {
  std::vector<int32_t> old(table.ends.size() * 2, 0);
  old.swap(table.ends);
  for (int32_t end : old) {
    if (end != 0) table.ends[find_slot(table, length, end, hash_of(length, end))] = end;
  }
}

void MatchIndex::insert(Table& table, int32_t length, int32_t end, uint64_t hash) {
  std::size_t slot = find_slot(table, length, end, hash);
  if (table.ends[slot] == 0) {
    if (2 * (table.num_used + 1) > table.ends.size()) {
      grow(table, length);
      slot = find_slot(table, length, end, hash);
    }
    ++table.num_used;
  }
  table.ends[slot] = end;
}

void MatchIndex::append(int32_t token) {
  const auto end = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  for_each_length(end, [&](int32_t length, uint64_t hash) {
    insert(tables_[static_cast<std::size_t>(length - options_.min_match)], length, end, hash);
  });
}

int32_t MatchIndex::draft(std::span<int32_t> out) const {
  int32_t from = 0;  // index of the token after the match
  for_each_length(static_cast<int32_t>(tokens_.size()), [&](int32_t length, uint64_t hash) {
    const Table& table = tables_[static_cast<std::size_t>(length - options_.min_match)];
    const int32_t end = table.ends[find_slot(table, length, static_cast<int32_t>(tokens_.size()), hash)];
    if (end != 0) from = end;
  });
  if (from == 0) return 0;
  const std::size_t first = static_cast<std::size_t>(from), known = tokens_.size() - first;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i < known ? tokens_[first + i] : out[i - known];
  return static_cast<int32_t>(out.size());
}

uint64_t MatchIndex::memory_bytes() const {
  uint64_t bytes = tokens_.capacity() * sizeof(int32_t);
  for (const Table& table : tables_) bytes += table.ends.capacity() * sizeof(int32_t);
  return bytes;
}

uint64_t MatchIndex::bytes_per_token(const MatchOptions& options) {
  // A vector that has grown is at least half full; a table that has grown is at least a quarter full.
  const auto lengths = static_cast<uint64_t>(options.max_match - options.min_match + 1);
  return 2 * sizeof(int32_t) + 4 * sizeof(int32_t) * lengths;
}

}  // namespace mortise::ngram
