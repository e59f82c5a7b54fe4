#include "tokenizer/model/vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mortise::tokenizer {

void Vocabulary::add(std::string_view text, std::int32_t id) {
  assert(id >= 0 && static_cast<std::uint64_t>(id) <= kMaxId);
  entries_.push_back({texts_.size(), static_cast<std::uint32_t>(text.size()), id});
  texts_ += text;
}

std::optional<std::string_view> Vocabulary::finish() {
  slots_.assign(std::bit_ceil(entries_.size() + entries_.size() / 2 + 1), Slot{});
  const std::size_t mask = slots_.size() - 1;
  std::int32_t max_id = -1;
  for (const Entry& entry : entries_) max_id = std::max(max_id, entry.id);
  by_id_.assign(static_cast<std::size_t>(max_id + 1), 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view text = text_of(entries_[i]);
    const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t at = hash & mask;
    for (; slots_[at].entry_plus_one != 0; at = (at + 1) & mask) {
      if (slots_[at].hash == tag && text_of(entries_[slots_[at].entry_plus_one - 1]) == text) return text;
    }
    slots_[at] = {tag, static_cast<std::uint32_t>(i + 1)};
    by_id_[static_cast<std::size_t>(entries_[i].id)] = static_cast<std::uint32_t>(i + 1);
  }
  return std::nullopt;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view text) const {
  const std::uint64_t hash = XXH3_64bits(text.data(), text.size());
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].entry_plus_one != 0; at = (at + 1) & mask) {
    const Entry& entry = entries_[slots_[at].entry_plus_one - 1];
    if (slots_[at].hash == tag && text_of(entry) == text) return entry.id;
  }
  return std::nullopt;
}

std::optional<std::string_view> Vocabulary::text(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= by_id_.size() || by_id_[id] == 0) return std::nullopt;
  return text_of(entries_[by_id_[id] - 1]);
}

}  // namespace mortise::tokenizer
