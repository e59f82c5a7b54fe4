// plugins/kernels/cuda/rows.hpp: operations on single rows: norms, activations, sums, copies by index
// (docs/numerics.md, "Norms").
// Shapes: rows as in types.hpp, bf16 or f32; round() is to that type. The caller has checked shapes and memory.
// Order: that of the CPU's rows/*.hpp; rows are independent.
// Cost: memory bound; a norm of few rows takes the time of its chains.
// Errors: cudaGetLastError() of the launch.
// Launches on `stream`, never waits, allocates nothing.
// Oracle: kernels/cpu/reference/norm.hpp and math.hpp, bitwise (tests/plugins/devices/cuda/rows_test.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/types.hpp"

namespace mortise::cuda {

// With a residual, first residual = round(x + residual), which is normalised instead of x.
//   rms_norm:    inv = 1 / sqrt(sum(x^2) / columns + eps);  out = round(weight * round(x * inv))
//   layer_norm:  mean = sum(x) / columns;  d = x - mean;  inv = 1 / sqrt(sum(d^2) / columns + eps)
//                out = round((d * inv) * weight + bias), the last product and sum fused; without bias only the product
// Source: arXiv:1910.07467 (RMS norm), arXiv:1607.06450 (layer norm).
struct NormArgs {
  Rows x, residual, out;  // residual.data may be null; out may be x
  const void* weight;     // [columns] of x's type
  const void* bias;       // the same, or null; for layer_norm
  std::int64_t rows, columns;
  ElementType type;
  bool layer_norm;
  float eps;
};
// A row must fit as f32 into the shared memory of a block, which has 227 KiB on Hopper, 163 KiB at compute capability
// 8.0, and 99 KiB at 8.6 and 8.9.
constexpr std::int64_t most_norm_columns(std::size_t shared_bytes) {
  constexpr std::size_t kBeside = 3 << 10;
  return static_cast<std::int64_t>((shared_bytes - kBeside) / sizeof(float) / 1024 * 1024);
}
static_assert(most_norm_columns(227 << 10) == 56 * 1024);
cudaError_t launch_norm(const NormArgs& args, cudaStream_t stream);

// Source of the next two: GELU, arXiv:1606.08415; gated activations, arXiv:2002.05202.
// out[m, i] = round(round(act(x[m, i])) * x[m, columns + i])
cudaError_t launch_gated(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                         std::int64_t columns, cudaStream_t stream);
// out = round(act(x))
cudaError_t launch_activation(Activation activation, ElementType type, Rows x, Rows out, std::int64_t rows,
                              std::int64_t columns, cudaStream_t stream);
// out = round(a + b)
cudaError_t launch_add(ElementType type, Rows a, Rows b, Rows out, std::int64_t rows, std::int64_t columns,
                       cudaStream_t stream);

// out[m] = from[ids[m]], for rows of `row_bytes`. Both strides are in bytes. An id outside of 0 .. num_from - 1 gives a
// row of zeros, so a wrong id reads no foreign memory. Oracle of gather and scatter: copies on the host, bitwise
// (tests/plugins/devices/cuda/rows_test.cpp).
struct GatherArgs {
  const std::byte* from;
  std::int64_t from_stride, num_from;
  const std::int32_t* ids;
  std::byte* out;
  std::int64_t out_stride;
  std::int64_t rows, row_bytes;
};
cudaError_t launch_gather(const GatherArgs& args, cudaStream_t stream);

// out[ids[m]] = from[m], with the same units. A row whose id is outside of 0 .. num_out - 1 is dropped. If ids are
// equal, one of their rows remains.
struct ScatterArgs {
  const std::byte* from;
  std::int64_t from_stride;
  const std::int32_t* ids;
  std::byte* out;
  std::int64_t out_stride, num_out;
  std::int64_t rows, row_bytes;
};
cudaError_t launch_scatter(const ScatterArgs& args, cudaStream_t stream);

// to[i] = from[i] for up to kMaxSmallCopy bytes. `to` may be page-locked memory of the host.
constexpr std::size_t kMaxSmallCopy = 256;
cudaError_t launch_small_copy(const std::byte* from, std::byte* to, std::size_t bytes, cudaStream_t stream);

// Raises the shared-memory limit of the row kernels, so that they can hold a row of up to `most_columns` columns. Call
// it once, before any launch.
cudaError_t prepare_row_kernels(std::int64_t most_columns);

}  // namespace mortise::cuda
