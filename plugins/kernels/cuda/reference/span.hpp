// reference/span.hpp: attention as docs/numerics.md says it ("Attention on CUDA"), one row of one head alone in its
// tile of the tensor cores, one warp, nothing read that the row does not see: the oracle that the span kernels are
// compared with, bit by bit.
#pragma once

#include "kernels/cuda/span.hpp"

namespace mortise::cuda::reference {

struct SpanRow {
  std::int32_t table;     // index in block_table of the sequence's first entry
  std::int32_t row;       // of q and out
  std::int32_t position;  // 0: sees one key; -1: sees none
  std::int32_t head, kv_head;
};

// What the rows went through, [num_rows][num_spans] of each; null: not wanted.
struct SpanTrace {
  std::int32_t num_spans;
  float* scores;            // [.., kSpan]
  Bf16Bits* probabilities;  // [.., kSpan]
  float2* stats;            // (m, sum); untouched where a row sees nothing of a span
};

cudaError_t span_rows(const SpanArgs& args, const SpanRow* rows, std::int32_t num_rows, const SpanTrace& trace,
                      cudaStream_t stream);

}  // namespace mortise::cuda::reference
