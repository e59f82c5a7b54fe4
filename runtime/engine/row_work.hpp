// runtime/engine/row_work.hpp: from a step's logit rows to what an Execution is to do with them, and back. Rows that
// draw get the sampling arguments of their sequences; with rejection sampling their drafts are verified here.
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

class RowWork {
 public:
  // `rejection`: drafts are verified by rejection sampling.
  RowWork(std::int32_t vocab_size, bool rejection);
  RowWork(const RowWork&) = delete;
  RowWork& operator=(const RowWork&) = delete;

  // Takes over the step's rows. Borrows both until infos() has returned.
  void assign(std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled);
  const DrawRows& draws() const { return draws_; }
  const ScoreRows& scores() const { return scores_; }
  // One TokenInfo for each logit row, in their order: the drawn token or the scored one.
  std::vector<TokenInfo> infos(StepResults results) const;

 private:
  const Sequence& sequence(const LogitRow& row) const {
    return *scheduled_[static_cast<std::size_t>(row.seq)].sequence;
  }
  void add_draws(bool described);
  void add_draw(const LogitRow& row);
  void add_range(std::size_t draw);
  RowEdits edits_of(const Sequence& owner, std::span<const std::int32_t> drafts);
  std::int32_t allowed_set(const Sequence& sequence, std::span<const std::int32_t> drafts);
  RowSampling sampling_of(std::size_t draw) const;
  void verify_by_rejection(const DrawnLogits& drawn);

  const std::int32_t vocab_size_;
  const std::size_t mask_words_;
  const bool rejection_;
  std::span<const LogitRow> rows_;
  std::span<const ScheduledSequence> scheduled_;
  DrawRows draws_;
  std::deque<std::vector<LogitEdit>> own_edits_;  // of rows whose edits are not just their sequence's
  ScoreRows scores_;
  std::vector<std::size_t> draw_places_, score_places_;  // of each row of draws_ and scores_: its index in rows_
  // Sequences of one guide that stand at the same place share a mask.
  std::map<std::pair<const ChoiceTrie*, ChoiceTrie::Node>, std::int32_t> mask_of_;
  std::int32_t rejected_seq_ = -1;  // index of a sequence one of whose drafts was rejected in this step
};

}  // namespace mortise
