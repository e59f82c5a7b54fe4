// runtime/execution/row_evaluator.hpp: turns hidden rows into tokens and log probabilities. Rows go through the head in
// chunks of max_logit_rows: first the rows that draw a token, then the rows whose token is given. On a device that
// shares the host's memory, many rows with a given token go through the score pass instead.
//
// launch() queues everything, including the copies to the host; collect() waits for the device once. Drawn tokens stay
// on the device, where they are the targets of the step's log probabilities. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execution/edit_table.hpp"
#include "execution/head_pass.hpp"
#include "execution/limits.hpp"
#include "execution/parts.hpp"
#include "execution/row_scores.hpp"
#include "execution/score_pass.hpp"
#include "execution/step_work.hpp"

namespace mortise {

// Invariant: one launch at a time; its rows stay borrowed until collect(). Used only by the thread that runs steps.
class RowEvaluator {
 public:
  // With `shows_logits` off, the host does not get the logits that it wants to see: another rank shows them.
  RowEvaluator(const ShardParts& parts, const ExecutionLimits& limits, bool shows_logits = true);

  // `hidden` has the rows of the step's batch. Borrows the rows of `work` until collect().
  void launch(const mortise_step& step, const mortise_tensor& hidden, const StepWork& work);
  StepResults collect();

  HeadPass& head() { return head_; }

 private:
  struct Arrays;  // addresses of a launch's arrays in device memory
  bool are_many(std::size_t num_scored) const;
  void launch_score_pass(const mortise_step& step, const mortise_tensor& hidden, const ScoreRows& scores);
  Arrays upload(const mortise_step& step, const StepWork& work, std::size_t num_scored);
  void select(const mortise_step& step, const mortise_tensor& hidden, const Arrays& arrays, std::size_t first,
              std::size_t count);
  void evaluate_chunk(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays, std::size_t first);
  void sample(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays, std::size_t first);
  void verify_drafts(const mortise_step& step, const mortise_sample_args& args, std::size_t first, std::size_t count);
  void draw_further(const mortise_step& step, mortise_sample_args args, std::size_t first, std::size_t count);
  void show_logits(const mortise_tensor& logits, const Arrays& arrays, std::size_t first, std::size_t count);
  void describe(const mortise_step& step, const mortise_tensor& logits, const Arrays& arrays, std::size_t first);

  const ShardParts& parts_;
  const bool shows_logits_;
  const ExecutionLimits& limits_;
  PackedUpload upload_, further_upload_, draft_upload_;
  EditTable edits_;
  Download tokens_, logits_;
  HeadPass head_;
  ScorePass score_pass_;
  RowScores scores_;

  // Of the running launch.
  const DrawRows* draws_ = nullptr;
  const ScoreRows* scored_ = nullptr;
  std::size_t num_rows_ = 0;         // rows that go through chunks: rows that draw, then scored rows
  std::size_t first_described_ = 0;  // index of the first of these rows that wants a log probability
  bool score_pass_runs_ = false;
  std::vector<std::int32_t> rows_;  // the numbers in the batch of all rows that go through chunks
  std::vector<std::int32_t> further_choices_;
};

}  // namespace mortise
