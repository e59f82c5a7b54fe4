// runtime/tokenizer/model/vocabulary.hpp: the tokens of a model, by text and by id. Built for fast loading: all texts
// are in one buffer, and the index is a hash table with open addressing. Ids may have holes. If two tokens have one id,
// the id stands for the later one in the file. Thread-safe after finish().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::tokenizer {

// Invariant: after finish() each text has at most one id. One thread adds; thread-safe after finish().
class Vocabulary {
 public:
  // Ids are array indices. The largest published vocabularies have 2^18 tokens.
  static constexpr std::uint64_t kMaxId = (1u << 24) - 1;

  // REQUIRES: id <= kMaxId. Call finish() after the last one, before any look-up.
  void add(std::string_view text, std::int32_t id);

  // Builds the index. Returns a text that was added twice, if there is one.
  std::optional<std::string_view> finish();

  std::optional<std::int32_t> find(std::string_view text) const;
  // The token's text; nullopt for an unused id.
  std::optional<std::string_view> text(std::int32_t id) const;

  std::size_t num_tokens() const { return entries_.size(); }
  std::size_t max_id_plus_one() const { return by_id_.size(); }

 private:
  struct Entry {
    std::size_t offset;
    std::uint32_t length;
    std::int32_t id;
  };
  struct Slot {
    std::uint32_t hash;  // upper half of the hash, which avoids most comparisons of texts
    std::uint32_t entry_plus_one = 0;
  };

  std::string_view text_of(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.offset, entry.length);
  }

  std::string texts_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> by_id_;  // index of the entry plus one; 0 for a hole
  std::vector<Slot> slots_;           // a power of two, at most two thirds full
};

}  // namespace mortise::tokenizer
