#include "kernels/cuda/reference/linear.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda::reference {
namespace {

__device__ std::uint32_t pair_of(const Bf16* p, std::int64_t stride, std::int64_t rows, std::int64_t k,
                                 std::int64_t row, std::int64_t column) {
  const auto at = [&](std::int64_t c) -> std::uint32_t { return row < rows && c < k ? p[row * stride + c] : 0u; };
  return at(column) | at(column + 1) << 16;
}

__global__ void linear_kernel(const LinearArgs args) {
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * 16, m0 = static_cast<std::int64_t>(blockIdx.y) * 8;
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4 * 2;
  float d[4] = {};
  for (std::int64_t k = 0; k < args.k; k += 16) {
    const auto w = [&](int row, int column) {
      return pair_of(args.w, args.w_stride, args.n, args.k, n0 + row, k + column);
    };
    const auto x = [&](int column) { return pair_of(args.x, args.x_stride, args.m, args.k, m0 + g, k + column); };
    const std::uint32_t a[4] = {w(g, t), w(g + 8, t), w(g, t + 8), w(g + 8, t + 8)};
    const std::uint32_t b[2] = {x(t), x(t + 8)};
    mma_m16n8k16(d, a, b);
  }
  for (int j = 0; j < 4; ++j) {
    const std::int64_t n = n0 + g + (j >= 2 ? 8 : 0), m = m0 + t + j % 2;
    if (n >= args.n || m >= args.m) continue;
    const float y = args.bias == nullptr ? d[j] : __fadd_rn(d[j], args.bias[n]);
    if (args.y_type == ElementType::kBf16) {
      put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
    } else {
      put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
    }
  }
}

}  // namespace

cudaError_t launch_linear(const LinearArgs& args, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((args.n + 15) / 16), static_cast<unsigned>((args.m + 7) / 8));
  linear_kernel<<<grid, 32, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mortise::cuda::reference
