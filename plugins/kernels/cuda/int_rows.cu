// One block per row. The kernels that read q may start early (launch.cuh), because they load weights first.
#include "kernels/cuda/int_rows.hpp"

#include "kernels/cuda/int_rows.cuh"
#include "kernels/cuda/launch.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256, kKept = 7;  // vectors

struct QuantizeArgs {
  LinearIntArgs linear;
  IntRows to;
  std::int32_t vectors, groups, group_size;  // in a row
};

__global__ void __launch_bounds__(kThreads) quantize_rows_kernel(const __grid_constant__ QuantizeArgs args) {
  __shared__ std::uint32_t largest[kThreads / 32];
  let_next_kernel_begin();
  wait_for_kernel_before();
  const std::int64_t row = blockIdx.x;
  const IntRow x(args.linear, row);
  const int thread = static_cast<int>(threadIdx.x);
  std::int32_t* const sums = args.to.sums == nullptr ? nullptr : args.to.sums + row;
  if (sums != nullptr) {
    for (int g = thread; g < args.groups; g += kThreads) sums[g * args.to.rows_padded] = 0;
  }
  // A thread keeps its first vectors: the L1 has not room for the rows of all blocks.
  uint4 kept[kKept];
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    kept[i] = thread + i * kThreads < args.vectors ? x.eight(thread + i * kThreads) : uint4{0, 0, 0, 0};
  }
#pragma unroll
  for (const uint4& vector : kept) most = max(most, largest_of(vector));
  for (int i = thread + kKept * kThreads; i < args.vectors; i += kThreads) most = max(most, largest_of(x.eight(i)));
  most = __reduce_max_sync(0xffffffffu, most);
  if (thread % 32 == 0) largest[thread / 32] = most;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) most = max(most, largest[i]);
  const IntRowScale scale = scale_of(most);
  if (thread == 0) args.to.scales[row] = scale.scale;
  char* const to = args.to.q + row * args.to.row_bytes;
  const auto put = [&](int i, const uint4& vector) {
    const uint2 q = quantized(vector, scale.inverse);
    *reinterpret_cast<uint2*>(to + 8 * i) = q;
    // Padding past k is zero and may belong to no group.
    if (sums == nullptr || 8 * i >= args.linear.format.k) return;
    const int sum = __dp4a(static_cast<int>(q.x), 0x01010101, __dp4a(static_cast<int>(q.y), 0x01010101, 0));
    atomicAdd(sums + (args.groups == 1 ? 0 : 8 * i / args.group_size) * args.to.rows_padded, sum);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (thread + i * kThreads < args.vectors) put(thread + i * kThreads, kept[i]);
  }
  for (int i = thread + kKept * kThreads; i < args.vectors; i += kThreads) put(i, x.eight(i));
}

std::int64_t padded(std::int64_t m) {
  return (m + kIntRowsPadded - 1) / kIntRowsPadded * kIntRowsPadded;
}

}  // namespace

std::uint64_t int_rows_bytes(const LinearIntArgs& args, bool sums) {
  const IntLayout layout(args.format);
  return static_cast<std::uint64_t>(padded(args.m) * (layout.chunks * kIntChunk + 4 + (sums ? 4 * layout.groups : 0)));
}

IntRows int_rows_in(void* workspace, const LinearIntArgs& args, bool sums) {
  IntRows rows = {};
  rows.row_bytes = IntLayout(args.format).chunks * kIntChunk;
  rows.rows_padded = padded(args.m);
  rows.q = static_cast<char*>(workspace);
  rows.scales = reinterpret_cast<float*>(rows.q + rows.rows_padded * rows.row_bytes);
  if (sums) rows.sums = reinterpret_cast<std::int32_t*>(rows.scales + rows.rows_padded);
  return rows;
}

cudaError_t launch_quantize_rows(const LinearIntArgs& args, const IntRows& to, cudaStream_t stream) {
  const IntLayout layout(args.format);
  QuantizeArgs all = {};
  all.linear = args;
  all.to = to;
  all.vectors = static_cast<std::int32_t>(to.row_bytes / 8);
  all.groups = static_cast<std::int32_t>(layout.groups);
  all.group_size = static_cast<std::int32_t>(args.format.group_size);
  return launch_overlapped(quantize_rows_kernel, dim3(static_cast<unsigned>(args.m)), kThreads, 0, stream, all);
}

}  // namespace mortise::cuda
