// runtime/execution/batch_bucket.hpp: the sizes that a batch is padded up to, so that few captured graphs serve all
// batches.
#pragma once

#include <compare>
#include <cstdint>

namespace mortise {

// Upper bounds of a batch; batches of one bucket differ in what their arrays hold and in nothing else.
struct BatchBucket {
  std::int32_t num_tokens = 0;
  std::int32_t num_seqs = 0;
  std::int32_t max_query_len = 0;
  std::int32_t max_blocks = 0;  // row length of the block table

  auto operator<=>(const BatchBucket&) const = default;
};

}  // namespace mortise
