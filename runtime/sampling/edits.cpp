#include "sampling/edits.hpp"

#include <algorithm>
#include <limits>

namespace mortise {

SequenceEdits::SequenceEdits(const SamplingParams& params, std::span<const std::int32_t> prompt)
    : params_(&params),
      counts_(params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
              params.presence_penalty != 0.0f) {
  for (const auto& [token, bias] : params.logit_bias) edits_[place_of(token)].bias = bias;
  if (!counts_) return;
  for (const std::int32_t token : prompt) edits_[place_of(token)].repetition = params.repetition_penalty;
}

// The index of the token's edit. Adds an edit without effect if there is none.
std::size_t SequenceEdits::place_of(std::int32_t token) {
  if (2 * edits_.size() >= table_.size()) grow_table();
  std::int32_t& place = table_[slot_of(token)];
  if (place < 0) {
    place = static_cast<std::int32_t>(edits_.size());
    edits_.push_back({token, 0.0f, 1.0f, 0.0f});
    generated_.push_back(0);
  }
  return static_cast<std::size_t>(place);
}

// The slot of the hash table that holds the token, or that it would get.
std::size_t SequenceEdits::slot_of(std::int32_t token) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = static_cast<std::uint32_t>(token) * std::uint32_t{2654435761} >> 7 & mask;
  while (table_[slot] >= 0 && edits_[static_cast<std::size_t>(table_[slot])].token != token) slot = (slot + 1) & mask;
  return slot;
}

void SequenceEdits::grow_table() {
  table_.assign(std::max<std::size_t>(16, 2 * table_.size()), -1);
  for (std::size_t i = 0; i < edits_.size(); ++i) table_[slot_of(edits_[i].token)] = static_cast<std::int32_t>(i);
}

void SequenceEdits::add_generated(std::int32_t token) {
  if (!counts_) return;
  const std::size_t place = place_of(token);
  const std::int32_t count = ++generated_[place];
  edits_[place].repetition = params_->repetition_penalty;
  // Computed from the count, because adding up single penalties would round differently.
  edits_[place].subtract = params_->frequency_penalty * static_cast<float>(count) + params_->presence_penalty;
  changes_.push_back(static_cast<std::int32_t>(place));
}

std::vector<LogitEdit> SequenceEdits::with(std::span<const std::int32_t> drafts,
                                           std::span<const std::int32_t> banned) const {
  SequenceEdits row = *this;
  for (const std::int32_t token : drafts) row.add_generated(token);
  for (const std::int32_t token : banned) {
    row.edits_[row.place_of(token)].bias = -std::numeric_limits<float>::infinity();
  }
  return std::move(row.edits_);
}

}  // namespace mortise
