// runtime/execution/batch_bucket.hpp: the sizes to which batches are padded, so that few captured graphs serve all
// batches.
#pragma once

#include <compare>
#include <cstdint>

namespace mortise {

// Upper bounds of a batch. Batches of one bucket differ only in the contents of their arrays.
struct BatchBucket {
  std::int32_t num_tokens = 0;
  std::int32_t num_seqs = 0;
  std::int32_t max_query_len = 0;
  std::int32_t max_blocks = 0;  // row length of the block table

  auto operator<=>(const BatchBucket&) const = default;
};

}  // namespace mortise
