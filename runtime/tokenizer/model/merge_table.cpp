#include "tokenizer/model/merge_table.hpp"

#include <bit>

namespace mortise::tokenizer {

MergeTable::MergeTable(std::size_t num_merges)
    : slots_(std::bit_ceil(num_merges + num_merges / 2 + 2)),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = first_slot(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

}  // namespace mortise::tokenizer
