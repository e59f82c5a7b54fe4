#include "engine/row_work.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sampling/edits.hpp"
#include "sampling/rejection.hpp"

namespace mortise {
namespace {

void clear(SamplingArrays& arrays) {
  for (auto* array : {&arrays.temperatures, &arrays.top_ps, &arrays.min_ps}) array->clear();
  for (auto* array : {&arrays.top_ks, &arrays.allowed_index}) array->clear();
  arrays.edits.clear();
  arrays.allowed_masks.clear();
  arrays.keys.clear();
  arrays.positions.clear();
}

}  // namespace

RowWork::RowWork(std::int32_t vocab_size, bool rejection)
    : vocab_size_(vocab_size), mask_words_((static_cast<std::size_t>(vocab_size) + 31) / 32), rejection_(rejection) {
  if (rejection) draws_.on_logits = [this](const DrawnLogits& drawn) { verify_by_rejection(drawn); };
}

void RowWork::assign(std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled) {
  rows_ = rows;
  scheduled_ = scheduled;
  for (auto* array : {&draws_.rows, &draws_.num_top, &scores_.rows, &scores_.targets, &scores_.num_top}) array->clear();
  draws_.wanted_logits.clear();
  draws_.drafts.clear();
  clear(draws_.sampling);
  own_edits_.clear();
  draw_places_.clear();
  score_places_.clear();
  mask_of_.clear();
  rejected_seq_ = -1;
  // Rows that want a log probability come last, next to the rows that are scored.
  if (add_draws(/*described=*/false)) add_draws(/*described=*/true);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].target < 0) continue;
    scores_.rows.push_back(rows[i].row);
    scores_.targets.push_back(rows[i].target);
    scores_.num_top.push_back(sequence(rows[i]).request().logprobs.value_or(0));
    score_places_.push_back(i);
  }
}

// Adds the rows that draw and want a log probability, or those that want none. Returns whether there are others.
bool RowWork::add_draws(bool described) {
  bool any_other = false;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const LogitRow& row = rows_[i];
    if (row.target >= 0) continue;
    if (sequence(row).request().logprobs.has_value() != described) {
      any_other = true;
      continue;
    }
    draw_places_.push_back(i);
    add_draw(row);
    if (rejection_) add_draft(draw_places_.size() - 1);
  }
  return any_other;
}

void RowWork::add_draw(const LogitRow& row) {
  const Sequence& owner = sequence(row);
  const SamplingParams& params = owner.request().sampling;
  draws_.rows.push_back(row.row);
  draws_.num_top.push_back(owner.request().logprobs.value_or(-1));
  SamplingArrays& arrays = draws_.sampling;
  arrays.temperatures.push_back(params.temperature);
  arrays.top_ps.push_back(params.top_p);
  arrays.min_ps.push_back(params.min_p);
  arrays.top_ks.push_back(params.top_k);
  arrays.keys.push_back(owner.key);
  arrays.positions.push_back(row.position + 1);
  const std::span<const std::int32_t> drafts = drafts_before(owner, row);
  arrays.allowed_index.push_back(allowed_set(owner, drafts));
  arrays.edits.push_back(edits_of(owner, drafts));
}

// The edits of a row after drafts assume that all these drafts are accepted. If one is not, the row's result is not
// used.
RowEdits RowWork::edits_of(const Sequence& owner, std::span<const std::int32_t> drafts) {
  std::span<const std::int32_t> banned;
  const std::int32_t num_generated = owner.num_generated() + static_cast<std::int32_t>(drafts.size());
  if (num_generated < owner.request().sampling.min_tokens) banned = owner.owner->end_tokens;
  if (drafts.empty() && banned.empty()) return {owner.id, owner.edits.current(), owner.edits.changes()};
  return {0, own_edits_.emplace_back(owner.edits.with(drafts, banned)), {}};
}

// Adds the draft after a row of a sequence that samples. If the device cannot verify it, the host needs the logits.
void RowWork::add_draft(std::size_t draw) {
  const LogitRow& row = rows_[draw_places_[draw]];
  const Sequence& owner = sequence(row);
  if (owner.request().sampling.temperature < std::numeric_limits<float>::min()) return;  // a denormal counts as 0
  const std::size_t index = drafts_before(owner, row).size();
  if (index >= owner.drafts.size()) return;
  draws_.drafts.push_back({draw, owner.drafts[index], distribution_of(owner, index)});
  if (index == 0) {
    draws_.wanted_logits.push_back({draw, 1});
  } else {
    ++draws_.wanted_logits.back().count;
  }
}

// Returns the index of the row's mask, or -1 if it has none.
std::int32_t RowWork::allowed_set(const Sequence& owner, std::span<const std::int32_t> drafts) {
  if (!owner.owner->guide) return -1;
  const ChoiceTrie& guide = owner.owner->guide->trie;
  ChoiceTrie::Node node = owner.guide_node;
  for (std::int32_t draft : drafts) node = guide.next(node, draft);
  if (node == ChoiceTrie::kNone || guide.is_complete(node)) return -1;  // a draft before this row will be rejected
  const auto [at, fresh] = mask_of_.emplace(std::pair(&guide, node), static_cast<std::int32_t>(mask_of_.size()));
  if (fresh) {
    std::vector<std::uint32_t>& masks = draws_.sampling.allowed_masks;
    const std::size_t begin = masks.size();
    masks.resize(begin + mask_words_);
    guide.allow(node, std::span(masks).subspan(begin));
  }
  return at->second;
}

RowSampling RowWork::sampling_of(std::size_t draw) const {
  const SamplingArrays& arrays = draws_.sampling;
  RowSampling result;
  result.temperature = arrays.temperatures[draw];
  result.top_p = arrays.top_ps[draw];
  result.min_p = arrays.min_ps[draw];
  result.top_k = arrays.top_ks[draw];
  result.edits = arrays.edits[draw].edits;
  if (arrays.allowed_index[draw] >= 0) {
    const std::size_t mask = static_cast<std::size_t>(arrays.allowed_index[draw]) * mask_words_;
    result.allowed = std::span(arrays.allowed_masks).subspan(mask, mask_words_);
  }
  return result;
}

// Returns the distribution that a draft was drawn from; empty: it was certain.
std::span<const float> RowWork::distribution_of(const Sequence& owner, std::size_t draft) const {
  const auto vocab = static_cast<std::size_t>(vocab_size_);
  const std::span<const float> all(owner.draft_distributions);
  return all.empty() ? all : all.subspan(draft * vocab, vocab);
}

// Verifies each row that a draft follows, if the device cannot. If the draft is accepted, the row's token becomes the
// draft; otherwise it becomes the recovered token. Rows after a sequence's first rejected draft are skipped, because
// their results are not used.
void RowWork::verify_by_rejection(const DrawnLogits& drawn) {
  const auto vocab = static_cast<std::size_t>(vocab_size_);
  for (std::size_t i = 0; i < drawn.range.count; ++i) {
    const std::size_t draw = drawn.range.first + i;
    const LogitRow& row = rows_[draw_places_[draw]];
    if (row.seq == rejected_seq_) return;
    const Sequence& owner = sequence(row);
    const std::size_t index = drafts_before(owner, row).size();
    const std::vector<std::uint64_t> weights =
        target_weights(drawn.logits.subspan(i * drawn.stride, vocab), sampling_of(draw));
    const std::int32_t draft = owner.drafts[index];
    drawn.tokens[i] = rejection_sample(weights, distribution_of(owner, index), draft, draws_.sampling.keys[draw],
                                       draws_.sampling.positions[draw]);
    if (drawn.tokens[i] != draft) rejected_seq_ = row.seq;
  }
}

std::vector<TokenInfo> RowWork::infos(StepResults results) const {
  const bool in_order = draw_places_.size() == rows_.size() && std::ranges::is_sorted(draw_places_);
  if (in_order) return std::move(results.draws);  // as in most steps: each row draws, none wants a log probability
  std::vector<TokenInfo> infos(rows_.size());
  for (std::size_t i = 0; i < draw_places_.size(); ++i) infos[draw_places_[i]] = std::move(results.draws[i]);
  for (std::size_t i = 0; i < score_places_.size(); ++i) infos[score_places_[i]] = std::move(results.scores[i]);
  return infos;
}

}  // namespace mortise
