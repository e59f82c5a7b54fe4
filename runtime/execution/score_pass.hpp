// runtime/execution/score_pass.hpp: computes log probabilities of many given tokens. The head runs in slices of the
// vocabulary, and each slice's logits are reduced while they are in a cache. So no rows x vocabulary matrix exists, and
// up to kBlockRows rows read the head's weights twice.
//
// A rank needs its target's logit first. So there are two passes: each window of the vocabulary with the rows whose
// targets it holds, in the order of targets; then each slice with all rows. Only the thread that runs steps calls it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execution/head_pass.hpp"
#include "execution/parts.hpp"
#include "execution/row_scores.hpp"

namespace mortise {

// Invariant: rows_ are sorted by target until collect(). Used only by the thread that runs steps.
class ScorePass {
 public:
  // The most rows that go through the head together: their logits for a slice of 2048 tokens take 16 MiB.
  static constexpr std::int32_t kBlockRows = 2048;

  ScorePass(const ShardParts& parts, HeadPass& head);

  struct Row {
    std::int32_t row = 0;     // of `hidden`
    std::int32_t target = 0;  // token of the vocabulary
    std::int32_t num_top = 0;
    std::size_t index = 0;  // of its result in collect()
  };
  // Queues the work and the download of its results.
  void launch(const mortise_step& step, const mortise_tensor& hidden, std::vector<Row> rows);
  // Writes infos[row.index] for each row. REQUIRES: the device was synchronised after launch().
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
