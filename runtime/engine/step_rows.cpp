#include "engine/step_rows.hpp"

#include <algorithm>

namespace mortise {

BatchComposition composition_of(std::span<const ScheduledSequence> scheduled) {
  BatchComposition batch;
  batch.num_sequences = static_cast<std::int32_t>(scheduled.size());
  for (const ScheduledSequence& item : scheduled) {
    const Sequence& sequence = *item.sequence;
    const std::int32_t prompt = std::clamp(sequence.num_prompt - sequence.num_computed, 0, item.num_new_tokens);
    batch.prompt_rows += prompt;
    batch.decode_rows += item.num_new_tokens - prompt;
    batch.draft_rows += static_cast<std::int32_t>(sequence.drafts.size());
  }
  return batch;
}

void StepRows::assign(std::span<const ScheduledSequence> scheduled) {
  runs_.clear();
  logit_rows_.clear();
  num_rows_ = 0;
  for (std::size_t i = 0; i < scheduled.size(); ++i) add(static_cast<std::int32_t>(i), scheduled[i]);
}

void StepRows::add(std::int32_t index, const ScheduledSequence& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  const std::int32_t first = sequence.num_computed;
  const auto known = std::span<const std::int32_t>(sequence.tokens)
                         .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(scheduled.num_new_tokens));
  add_runs({sequence.id, first, known, sequence.drafts, sequence.blocks});

  std::int32_t scored = sequence.next_scored_position();
  for (std::int32_t position = first; position < first + scheduled.num_rows(); ++position) {
    const std::int32_t row = num_rows_ + position - first;
    if (position == scored && position < sequence.num_prompt - 1) {
      logit_rows_.push_back({row, index, position, sequence.tokens[static_cast<std::size_t>(position) + 1]});
      ++scored;
    } else if (position >= sequence.num_tokens() - 1 && sequence.wants_tokens()) {
      logit_rows_.push_back({row, index, position, -1});
    }
  }
  num_rows_ += scheduled.num_rows();
  for (std::size_t fork = 0; fork < sequence.forks.size(); ++fork) add_fork(index, sequence, fork);
}

// Adds a run that computes the last known token again, because the fork's copy of its block lacks that token, and then
// the fork's drafts.
void StepRows::add_fork(std::int32_t index, const Sequence& sequence, std::size_t fork) {
  const DraftFork& draft_fork = sequence.forks[fork];
  const std::int32_t first = sequence.num_tokens() - 1;
  const auto last_known = std::span<const std::int32_t>(sequence.tokens).last(1);
  add_runs({sequence.id, first, last_known, draft_fork.drafts, draft_fork.blocks});
  const auto count = static_cast<std::int32_t>(draft_fork.drafts.size());
  for (std::int32_t i = 1; i <= count; ++i) {
    logit_rows_.push_back({num_rows_ + i, index, first + i, -1, static_cast<std::int32_t>(fork) + 1});
  }
  num_rows_ += 1 + count;
}

std::span<const std::int32_t> drafts_before(const Sequence& sequence, const LogitRow& row) {
  const std::vector<std::int32_t>& drafts =
      row.path == 0 ? sequence.drafts : sequence.forks[static_cast<std::size_t>(row.path) - 1].drafts;
  return std::span(drafts).first(static_cast<std::size_t>(row.position - (sequence.num_tokens() - 1)));
}

void StepRows::add_runs(const RowRun& run) {
  if (!expands_ || run.drafts.empty()) return runs_.push_back(run);
  RowRun piece = run;
  piece.drafts = {};
  if (!piece.known.empty()) runs_.push_back(piece);
  piece.first += static_cast<std::int32_t>(piece.known.size());
  piece.known = {};
  for (std::size_t i = 0; i < run.drafts.size(); ++i, ++piece.first) {
    piece.drafts = run.drafts.subspan(i, 1);
    runs_.push_back(piece);
  }
}

}  // namespace mortise
