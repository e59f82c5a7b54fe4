// rows.hpp: the operations that treat rows one by one. Shapes and memory were checked by the caller; launches on
// `stream`, never waits, allocates nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

// out = norm(x) as in docs/numerics.md, "Norms"; with a residual, first residual := round(x + residual).
struct NormArgs {
  Rows x, residual, out;  // residual.data may be null; out may be x
  const void* weight;     // [columns] of x's type
  const void* bias;       // the same, or null
  std::int64_t rows, columns;
  ElementType type;
  bool layer_norm;
  float eps;
};
constexpr std::int64_t kMaxNormColumns = 56 * 1024;  // a row as f32 in a block's shared memory
cudaError_t launch_norm(const NormArgs& args, cudaStream_t stream);

// out[m, i] = round(round(act(x[m, i])) * x[m, columns + i])
cudaError_t launch_gated(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                         std::int64_t columns, cudaStream_t stream);
// out = round(act(x))
cudaError_t launch_activation(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                              std::int64_t columns, cudaStream_t stream);
// out = round(a + b)
cudaError_t launch_add(ElementType type, Rows a, Rows b, Rows out, std::int64_t rows, std::int64_t columns,
                       cudaStream_t stream);

// out[m] = from[ids[m]], rows of `row_bytes`. Both strides in bytes. An id outside of 0 .. num_from - 1 is a row of
// zeros, so that a caller's mistake reads no foreign memory.
struct GatherArgs {
  const std::byte* from;
  std::int64_t from_stride, num_from;
  const std::int32_t* ids;
  std::byte* out;
  std::int64_t out_stride;
  std::int64_t rows, row_bytes;
};
cudaError_t launch_gather(const GatherArgs& args, cudaStream_t stream);

// out[ids[m]] = from[m], in the same way. A row whose id is outside of 0 .. num_out - 1 is dropped; ids that are equal
// leave one of their rows.
struct ScatterArgs {
  const std::byte* from;
  std::int64_t from_stride;
  const std::int32_t* ids;
  std::byte* out;
  std::int64_t out_stride, num_out;
  std::int64_t rows, row_bytes;
};
cudaError_t launch_scatter(const ScatterArgs& args, cudaStream_t stream);

// A kernel takes more shared memory than 48 KiB only after it was told to: once, before anything is launched.
cudaError_t prepare_row_kernels();

}  // namespace mortise::cuda
