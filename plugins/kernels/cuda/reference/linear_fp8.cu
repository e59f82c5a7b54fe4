#include "kernels/cuda/reference/linear_fp8.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda::reference {
namespace {

// Returns an E4M3 number as bf16, computed from its sign, exponent and mantissa, without the tricks of the packed
// kernels.
__device__ std::uint32_t widened(std::uint8_t value) {
  const int exponent = value >> 3 & 15, mantissa = value & 7;
  const float magnitude = exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9)
                                        : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return to_bf16((value & 0x80) != 0 ? -magnitude : magnitude);
}

__global__ void linear_kernel(const LinearFp8Args args, const PlainFp8Weight weight) {
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * 16, m0 = static_cast<std::int64_t>(blockIdx.y) * 8;
  const std::int64_t k = args.format.k, groups = args.format.grouped ? (k + 127) / 128 : 1;
  const std::int64_t of_group = args.format.grouped ? 128 : (k + 127) / 128 * 128;
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4 * 2;
  const auto x_at = [&](std::int64_t column) -> std::uint32_t {
    return m0 + g < args.m && column < k ? args.x[(m0 + g) * args.x_stride + column] : 0u;
  };
  const auto w_at = [&](std::int64_t row, std::int64_t column) -> std::uint32_t {
    return n0 + row < args.n && column < k ? widened(weight.values[(n0 + row) * k + column]) : 0u;
  };
  float acc[4] = {};
  for (std::int64_t group = 0; group < groups; ++group) {
    float d[4] = {};
    for (std::int64_t at = group * of_group; at < (group + 1) * of_group; at += 16) {
      const auto w = [&](int row, int column) { return w_at(row, at + column) | w_at(row, at + column + 1) << 16; };
      const auto x = [&](int column) { return x_at(at + column) | x_at(at + column + 1) << 16; };
      const std::uint32_t a[4] = {w(g, t), w(g + 8, t), w(g, t + 8), w(g + 8, t + 8)};
      const std::uint32_t b[2] = {x(t), x(t + 8)};
      mma_m16n8k16(d, a, b);
    }
    for (int j = 0; j < 4; ++j) {
      const std::int64_t n = n0 + g + (j >= 2 ? 8 : 0);
      if (n < args.n) acc[j] = __fmaf_rn(d[j], weight.scales[n * groups + group], acc[j]);
    }
  }
  for (int j = 0; j < 4; ++j) {
    const std::int64_t n = n0 + g + (j >= 2 ? 8 : 0), m = m0 + t + j % 2;
    if (n >= args.n || m >= args.m) continue;
    const float y = args.bias == nullptr ? acc[j] : __fadd_rn(acc[j], args.bias[n]);
    if (args.y_type == ElementType::kBf16) {
      put(static_cast<Bf16*>(args.y)[m * args.y_stride + n], y);
    } else {
      put(static_cast<float*>(args.y)[m * args.y_stride + n], y);
    }
  }
}

}  // namespace

cudaError_t launch_linear_fp8(const LinearFp8Args& args, const PlainFp8Weight& weight, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((args.n + 15) / 16), static_cast<unsigned>((args.m + 7) / 8));
  linear_kernel<<<grid, 32, 0, stream>>>(args, weight);
  return cudaGetLastError();
}

}  // namespace mortise::cuda::reference
