// runtime/execution/score_pass.hpp: log probabilities of many given tokens. The head runs in slices of the vocabulary,
// and what a slice's logits tell is taken from them while they are in a cache: no rows x vocabulary matrix exists, and
// the head's weights are read twice for up to kBlockRows rows.
//
// Ranks need their targets' logits first. So the rows go through the head in the order of their targets: each window of
// the vocabulary with the rows whose targets it holds, and then each slice with all rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execution/head_pass.hpp"
#include "execution/parts.hpp"
#include "execution/row_scores.hpp"

namespace mortise {

class ScorePass {
 public:
  // Rows that go through the head together, at most: their logits of a slice of 2048 take 16 MiB.
  static constexpr std::int32_t kBlockRows = 2048;

  ScorePass(const ShardParts& parts, HeadPass& head);

  struct Row {
    std::int32_t row = 0;     // of `hidden`
    std::int32_t target = 0;  // token of the vocabulary
    std::int32_t num_top = 0;
    std::size_t index = 0;  // of its result
  };
  // Queues the work and the download of what comes out of it.
  void launch(const mortise_step& step, const mortise_tensor& hidden, std::vector<Row> rows);
  // Once the device was synchronised: writes infos[row.index] of each row.
  void collect(std::span<TokenInfo> infos);

 private:
  // The rows that the head has selected.
  struct Block {
    std::span<const Row> rows;
    std::size_t first;  // of rows_
  };
  void find_target_logits(const mortise_step& step, const Block& block);
  void reduce_all(const mortise_step& step, const Block& block);

  HeadPass& head_;
  const std::int32_t vocab_size_, slice_, window_;
  PackedUpload upload_;
  RowScores scores_;
  std::vector<Row> rows_;                  // of this launch, in the order of their targets
  const std::int32_t* targets_ = nullptr;  // of rows_, in device memory
};

}  // namespace mortise
