// examples/suffix/past_texts.hpp: what sequences generated, those that run now and those that have ended, within a
// fixed number of tokens.
//
// There are two automata. New tokens go into the young one. When it holds half of the tokens allowed, it becomes the
// old one, the old one is forgotten, and an empty one takes its place. So the latest half is always there, memory has a
// bound, and nothing is ever removed from within an automaton.
#pragma once

#include <cstdint>
#include <utility>

#include "suffix_automaton.hpp"

namespace suffix {

// Invariant: each automaton has at most half of the allowed tokens, rounded up. Not thread-safe.
class PastTexts {
 public:
  using Place = SuffixAutomaton::Place;

  // `max_tokens`: kept at most; 0: none.
  PastTexts(int64_t max_tokens, uint64_t hash_seed)
      : max_tokens_(max_tokens), hash_seed_(hash_seed), young_(hash_seed), old_(hash_seed) {}

  // A sequence's position: the end of its text in the young automaton, and its longest suffix in the old one.
  struct Reader {
    SuffixAutomaton::State end = SuffixAutomaton::kRoot;
    Place old;
    uint64_t generation = 0;
  };
  Reader begin() const { return {SuffixAutomaton::kRoot, {}, generation_}; }

  // The sequence of `reader` has gone on with `token`.
  void append(Reader& reader, int32_t token) {
    if (max_tokens_ == 0) return;
    if (2 * young_.num_tokens() >= max_tokens_) grow_old();
    reader.old = old_.advance(place_in_old(reader), token);
    if (reader.generation != generation_) reader.end = SuffixAutomaton::kRoot;
    reader.end = young_.append(reader.end, token);
    reader.generation = generation_;
  }

  // The two automata, and the longest suffix of the sequence's text in each that something followed.
  const SuffixAutomaton& young() const { return young_; }
  const SuffixAutomaton& old() const { return old_; }
  Place in_young(const Reader& reader) const {
    return reader.generation == generation_ ? young_.followed(young_.whole(reader.end)) : Place{};
  }
  Place in_old(const Reader& reader) const { return old_.followed(place_in_old(reader)); }

  int64_t num_tokens() const { return young_.num_tokens() + old_.num_tokens(); }
  uint64_t memory_bytes() const { return young_.memory_bytes() + old_.memory_bytes(); }
  void clear() {
    grow_old();
    grow_old();
  }

 private:
  // The young automaton of a reader's last token may be the old one by now, or be forgotten.
  Place place_in_old(const Reader& reader) const {
    if (reader.generation == generation_) return reader.old;
    return reader.generation + 1 == generation_ ? old_.whole(reader.end) : Place{};
  }
  void grow_old() {
    SuffixAutomaton empty(hash_seed_);  // first: it may find no memory
    old_ = std::move(young_);
    young_ = std::move(empty);
    ++generation_;
  }

  int64_t max_tokens_;
  uint64_t hash_seed_;
  uint64_t generation_ = 0;  // how often the young automaton became the old one
  SuffixAutomaton young_, old_;
};

}  // namespace suffix
