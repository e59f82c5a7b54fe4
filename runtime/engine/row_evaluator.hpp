// runtime/engine/row_evaluator.hpp: from hidden rows to tokens and log probabilities. Rows go through the head in
// chunks of max_logit_rows, so that a rows x vocabulary matrix of a whole prompt never exists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/head_pass.hpp"
#include "engine/parts.hpp"
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
  void draw(const mortise_step& step, Chunk& chunk);
  void verify_by_rejection(Chunk& chunk, std::size_t begin, const DrawArrays& arrays);
  void describe(const mortise_step& step, Chunk& chunk);

  const Parts& parts_;
  const EngineLimits& limits_;
  const std::int32_t vocab_size_;
  PackedUpload upload_;
  Download download_;
  HeadPass head_;
  DeviceBuffer results_;
};

}  // namespace mortise
