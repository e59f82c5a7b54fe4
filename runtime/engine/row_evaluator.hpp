// runtime/engine/row_evaluator.hpp: from hidden rows to tokens and log probabilities. Rows that draw go through the
// head in chunks of max_logit_rows; so do few rows with a given token, many of them go through the score pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/head_pass.hpp"
#include "engine/parts.hpp"
#include "engine/row_scores.hpp"
#include "engine/score_pass.hpp"
#include "engine/step_rows.hpp"

namespace mortise {

struct DrawArrays;

class RowEvaluator {
 public:
  RowEvaluator(const Parts& parts, const EngineLimits& limits, std::int32_t vocab_size);

  // One TokenInfo per row, in order: the drawn token or the scored one. `hidden` has the batch's rows, `rows` are those
  // of the step's batch.
  std::vector<TokenInfo> evaluate(const mortise_step& step, const mortise_tensor& hidden,
                                  std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled);

  HeadPass& head() { return head_; }

 private:
  struct Chunk;
  bool are_many(std::int64_t num_scored) const;
  std::vector<TokenInfo> evaluate_apart(const mortise_step& step, const mortise_tensor& hidden,
                                        std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled);
  void evaluate_chunks(const mortise_step& step, const mortise_tensor& hidden, const std::int32_t* device_rows,
                       std::span<const LogitRow> rows, std::span<const ScheduledSequence> scheduled,
                       std::span<TokenInfo> infos);
  void draw(const mortise_step& step, Chunk& chunk);
  void verify_by_rejection(Chunk& chunk, std::size_t begin, const DrawArrays& arrays);
  void describe(const mortise_step& step, Chunk& chunk);

  const Parts& parts_;
  const EngineLimits& limits_;
  const std::int32_t vocab_size_;
  PackedUpload upload_;
  Download download_;
  HeadPass head_;
  ScorePass score_pass_;
  RowScores scores_;
  DeviceBuffer drawn_;
  PackedUpload drawing_rows_;
};

}  // namespace mortise
