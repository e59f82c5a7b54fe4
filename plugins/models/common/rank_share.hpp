// plugins/models/common/rank_share.hpp: the share of a model that one rank of a tensor-parallel pipeline computes.
// Every product is cut by the columns of its output and sums over all of K, so each number has the bits that one device
// gives. The vocabulary is cut in ascending ranges of kVocabStep tokens, all other columns and all heads evenly.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "mortise/ops.hpp"

namespace mortise::models {

// A number of the configuration that ranks divide.
struct Divided {
  const char* name;  // its key in config.json
  int32_t value;
};

// Rank `rank` of `world`; 0 of 1 without ranks. A value.
struct RankShare {
  int32_t rank = 0, world = 1;

  // Returns the share of the instance. Throws a Failure that names the first number which its ranks cannot divide
  // evenly.
  static RankShare of(const mortise_create_args& args, std::initializer_list<Divided> divided);

  // Throws a Failure unless the step is of this rank.
  void check(const mortise_step& step) const;

  int32_t share(int32_t total) const { return total / world; }  // REQUIRES: divided evenly
  // The rows of outputs that the rank computes, of a tensor or module with `rows`.
  CheckpointTensor rows(std::string name, int64_t rows) const { return part_of(std::move(name), rows, rank, world); }
  // The same for `rows` that lie among others: those of q, k or v in one tensor of `all` rows, from `first` on.
  CheckpointTensor rows_within(std::string name, int64_t all, int64_t first, int64_t rows) const {
    return {std::move(name), all, first + rows / world * rank, rows / world};
  }

  // Ranges of the vocabulary: rank r has tokens bounds[r] .. bounds[r + 1] - 1 of its head.
  std::vector<int64_t> vocab_bounds(int64_t vocab_size) const;
  CheckpointTensor vocab_rows(std::string name, int64_t vocab_size) const;
};

// mortise_model_table.head for a head whose `weight` has the rank's tokens: computes the rank's columns of `logits`,
// and gathers the others.
void run_head(const mortise_step& step, const RankShare& share, const mortise_tensor& hidden,
              const mortise_weight* weight, int32_t vocab_size, int32_t vocab_begin, int32_t vocab_end,
              const mortise_tensor& logits);

}  // namespace mortise::models
