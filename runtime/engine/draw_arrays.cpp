#include "engine/draw_arrays.hpp"

namespace mortise {
namespace {

std::vector<LogitEdit> edits_of(const Sequence& sequence, std::span<const std::int32_t> drafts) {
  const SamplingParams& params = sequence.request().sampling;
  std::span<const std::int32_t> banned;
  if (sequence.num_generated() + static_cast<std::int32_t>(drafts.size()) < params.min_tokens) {
    banned = sequence.owner->end_tokens;
  }
  return make_edits(params, sequence.counts, drafts, banned);
}

}  // namespace

void DrawArrays::add(const Sequence& sequence, const LogitRow& row) {
  const SamplingParams& params = sequence.request().sampling;
  temperatures.push_back(params.temperature);
  top_ps.push_back(params.top_p);
  min_ps.push_back(params.min_p);
  top_ks.push_back(params.top_k);
  keys.push_back(sequence.key);
  positions.push_back(row.position + 1);
  // A row behind drafts sees them as if they had been accepted: if they are not, nobody looks at the row.
  const std::span<const std::int32_t> drafts = drafts_before(sequence, row);
  allowed_index.push_back(allowed_set(sequence, drafts));
  for (const LogitEdit& edit : edits_of(sequence, drafts)) {
    edit_ids.push_back(edit.token);
    biases.push_back(edit.bias);
    repetitions.push_back(edit.repetition);
    subtracts.push_back(edit.subtract);
  }
  edit_offsets.push_back(static_cast<std::int32_t>(edit_ids.size()));
}

RowSampling DrawArrays::row(std::size_t i) const {
  RowSampling result;
  result.temperature = temperatures[i];
  result.top_p = top_ps[i];
  result.min_p = min_ps[i];
  result.top_k = top_ks[i];
  const auto begin = static_cast<std::size_t>(edit_offsets[i]);
  const std::size_t count = static_cast<std::size_t>(edit_offsets[i + 1]) - begin;
  result.edit_ids = std::span(edit_ids).subspan(begin, count);
  result.biases = std::span(biases).subspan(begin, count);
  result.repetitions = std::span(repetitions).subspan(begin, count);
  result.subtracts = std::span(subtracts).subspan(begin, count);
  if (allowed_index[i] >= 0) {
    result.allowed =
        std::span(allowed_masks).subspan(static_cast<std::size_t>(allowed_index[i]) * mask_words, mask_words);
  }
  return result;
}

// Index of the row's mask, -1 for none. Sequences of one guide that stand at the same place share a mask.
std::int32_t DrawArrays::allowed_set(const Sequence& sequence, std::span<const std::int32_t> drafts) {
  if (!sequence.owner->guide) return -1;
  const ChoiceTrie& guide = sequence.owner->guide->trie;
  ChoiceTrie::Node node = sequence.guide_node;
  for (std::int32_t draft : drafts) node = guide.next(node, draft);
  if (node == ChoiceTrie::kNone || guide.is_complete(node)) return -1;  // behind a draft that will not stand
  const auto [at, fresh] = mask_of_.emplace(std::pair(&guide, node), static_cast<std::int32_t>(mask_of_.size()));
  if (fresh) {
    const std::size_t begin = allowed_masks.size();
    allowed_masks.resize(begin + mask_words);
    guide.allow(node, std::span(allowed_masks).subspan(begin));
  }
  return at->second;
}

}  // namespace mortise
