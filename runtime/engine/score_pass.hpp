// runtime/engine/score_pass.hpp: log probabilities of many given tokens. The head runs in slices of the vocabulary, and
// what a slice's logits tell is taken from them while they are in a cache: no rows x vocabulary matrix exists, and the
// head's weights are read twice for up to kBlockRows rows.
//
// Ranks need their targets' logits first. So the rows go through the head in the order of their targets: each window of
// the vocabulary with the rows whose targets it holds, and then each slice with all rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/head_pass.hpp"
#include "engine/parts.hpp"
#include "engine/row_scores.hpp"

namespace mortise {

class ScorePass {
 public:
  // Rows that go through the head together, at most: their logits of a slice of 2048 take 16 MiB.
  static constexpr std::int32_t kBlockRows = 2048;

  ScorePass(const Parts& parts, HeadPass& head, std::int32_t vocab_size);

  struct Row {
    std::int32_t row = 0;     // of `hidden`
    std::int32_t target = 0;  // token of the vocabulary
    std::int32_t num_top = 0;
    TokenInfo* info = nullptr;  // out
  };
  void run(const mortise_step& step, const mortise_tensor& hidden, std::vector<Row> rows);

 private:
  // The rows that the head has selected.
  struct Block {
    std::span<const Row> rows;
    std::size_t first;  // of this run's
  };
  void find_target_logits(const mortise_step& step, const Block& block);
  void reduce_all(const mortise_step& step, const Block& block);

  HeadPass& head_;
  const std::int32_t vocab_size_, slice_, window_;
  PackedUpload upload_;
  RowScores scores_;
  const std::int32_t* targets_ = nullptr;  // of this run's rows, in device memory
};

}  // namespace mortise
