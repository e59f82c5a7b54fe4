// runtime/engine/row_work.hpp: turns a step's logit rows into work for an Execution, and its results into TokenInfos.
// Rows that draw a token get the sampling arguments of their sequences. With rejection sampling they get their drafts
// too, which are verified here if the device cannot. Engine's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence.hpp"
#include "engine/step_rows.hpp"
#include "execution/step_work.hpp"
#include "sampling/distribution.hpp"

namespace mortise {

// Invariant: row i of draws() is logit row draw_places_[i], and row i of scores() is logit row score_places_[i].
// Engine's thread only.
class RowWork {
 public:
  // `rejection`: drafts are verified by rejection sampling.
  RowWork(std::int32_t vocab_size, bool rejection);
  RowWork(const RowWork&) = delete;
  RowWork& operator=(const RowWork&) = delete;

  // Prepares the work for these rows. Borrows `rows` and `scheduled` until infos() has returned.
  void assign(std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled);
  const DrawRows& draws() const { return draws_; }
  const ScoreRows& scores() const { return scores_; }
  // Returns one TokenInfo for each logit row, in their order: of the drawn token or of the scored token.
  std::vector<TokenInfo> infos(StepResults results) const;

 private:
  const Sequence& sequence(const LogitRow& row) const {
    return *scheduled_[static_cast<std::size_t>(row.seq)].sequence;
  }
  bool add_draws(bool described);
  void add_draw(const LogitRow& row);
  void add_draft(std::size_t draw);
  RowEdits edits_of(const Sequence& owner, std::span<const std::int32_t> drafts);
  std::int32_t allowed_set(const Sequence& sequence, std::span<const std::int32_t> drafts);
  RowSampling sampling_of(std::size_t draw) const;
  std::span<const float> distribution_of(const Sequence& owner, std::size_t draft) const;
  void verify_by_rejection(const DrawnLogits& drawn);

  const std::int32_t vocab_size_;
  const std::size_t mask_words_;
  const bool rejection_;
  std::span<const LogitRow> rows_;
  std::span<const ScheduledSequence> scheduled_;
  DrawRows draws_;
  std::deque<std::vector<LogitEdit>> own_edits_;  // of rows that need more than their sequence's edits
  ScoreRows scores_;
  std::vector<std::size_t> draw_places_, score_places_;  // of each row of draws_ and scores_: its index in rows_
  // Sequences at the same node of the same guide share a mask.
  std::map<std::pair<const ChoiceTrie*, ChoiceTrie::Node>, std::int32_t> mask_of_;
  std::int32_t rejected_seq_ = -1;  // the last sequence with a draft rejected in this step; -1: none
};

}  // namespace mortise
