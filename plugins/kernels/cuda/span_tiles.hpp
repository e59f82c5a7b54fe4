// plugins/kernels/cuda/span_tiles.hpp: the attention of span.hpp without wgmma and TMA: for GPUs of compute
// capability 8. It takes the same lists of work as the decode kernel and the prefill kernel, and gives the bits of
// reference/span.hpp.
//   out[r, h] = softmax_t(scale * q[r, h] . K[t]) V[t]      t: the keys that row r sees
// Shapes, order, partials: as span.hpp.
// Cost: each block reads K and V of its spans once for 64 rows. Tiles of 128 rows are read twice.
// Errors: cudaGetLastError() of the launch.
// Launches on `stream`, never waits.
// Source: PTX ISA, mma.sync.m16n8k16 and cp.async; tiles of FlashAttention-2, arXiv:2307.08691.
// Oracle: reference/span.hpp, bitwise (tests/plugins/kernels/cuda/span_test.cpp).
#pragma once

#include "kernels/cuda/span.hpp"

namespace mortise::cuda {

// Once per process, device and head size, before any launch.
cudaError_t span_tiles_prepare(std::int32_t head_dim, SpanCache cache);
// As span_decode and span_prefill. num_blocks is not used: each block of the prefill has one half of a run.
cudaError_t span_tiles_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream);
cudaError_t span_tiles_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs,
                               std::int32_t num_blocks, cudaStream_t stream);

}  // namespace mortise::cuda
