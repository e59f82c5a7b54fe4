// runtime/tokenizer/model/merge_table.hpp: the pairs of tokens that merge, their results and their ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mortise::tokenizer {

struct Merge {
  std::uint32_t rank;  // lower merges first
  std::int32_t id;     // the merged token
};

// A hash table with open addressing, at most two thirds full. Thread-safe after the last add(). Invariant: a pair is in
// the table at most once.
class MergeTable {
 public:
  explicit MergeTable(std::size_t num_merges);

  // Replaces the merge of a pair that exists.
  // REQUIRES: ids >= 0, and at most `num_merges` calls.
  void add(std::int32_t left, std::int32_t right, Merge merge);

  // Null if the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = first_slot(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return &slots_[at].merge;
      if (slots_[at].key == kFree) return nullptr;
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // not a pair, because ids are not negative
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge{};
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  // Fibonacci hashing: the upper bits of the product are well mixed.
  std::size_t first_slot(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

}  // namespace mortise::tokenizer
