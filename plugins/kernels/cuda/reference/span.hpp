// plugins/kernels/cuda/reference/span.hpp: the plain form of attention on CUDA (docs/numerics.md, "Attention on CUDA").
// One warp computes one row of one head, alone in its tensor-core tile, and reads only keys that the row sees. The span
// kernels equal it bit by bit.
#pragma once

#include "kernels/cuda/span.hpp"

namespace mortise::cuda::reference {

struct SpanRow {
  std::int32_t table;     // index in block_table of the sequence's first entry
  std::int32_t row;       // of q and out
  std::int32_t position;  // 0: sees one key; -1: sees none
  std::int32_t head, kv_head;
};

// Intermediate results, each [num_rows][num_spans]; null: not wanted.
struct SpanTrace {
  std::int32_t num_spans;
  float* scores;            // [.., kSpan]
  Bf16Bits* probabilities;  // [.., kSpan]
  float2* stats;            // (m, sum); not written where a row sees no key of a span
};

cudaError_t span_rows(const SpanArgs& args, const SpanRow* rows, std::int32_t num_rows, const SpanTrace& trace,
                      cudaStream_t stream);

}  // namespace mortise::cuda::reference
