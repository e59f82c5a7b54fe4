#include "probe.hpp"

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/noise.cuh"
#include "kernels/cuda/noise_bound.hpp"

namespace mortise::cuda {
namespace {

__device__ float apply(Function function, float x) {
  switch (function) {
    case Function::kExp2:
      return exp2(x);
    case Function::kExp:
      return exp(x);
    case Function::kLog:
      return log(x);
    case Function::kLog1p:
      return log1p(x);
    case Function::kTanh:
      return tanh(x);
    case Function::kErf:
      return erf(x);
    case Function::kSigmoid:
      return sigmoid(x);
    case Function::kSilu:
      return silu(x);
    case Function::kRelu:
      return relu(x);
    case Function::kGelu:
      return gelu(x);
    case Function::kGeluTanh:
      return gelu_tanh(x);
    case Function::kGumbel:
      return gumbel(__float_as_uint(x));
    case Function::kNoiseAtMost:
      return noise_at_most(__float_as_uint(x));
    case Function::kCount:
      break;
  }
  return 0;
}

__device__ float apply(Operation operation, float a, float b, float c) {
  switch (operation) {
    case Operation::kAdd:
      return __fadd_rn(a, b);
    case Operation::kMultiply:
      return __fmul_rn(a, b);
    case Operation::kFma:
      return __fmaf_rn(a, b, c);
    case Operation::kDivide:
      return __fdiv_rn(a, b);
    case Operation::kSquareRoot:
      return __fsqrt_rn(a);
    case Operation::kCount:
      break;
  }
  return 0;
}

__global__ void probe_kernel(Function function, const float* x, float* y, std::size_t n) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = canonical_nan(apply(function, x[i]));
}

__global__ void operation_kernel(Operation operation, const float* a, const float* b, const float* c, float* y,
                                 std::size_t n) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = canonical_nan(apply(operation, a[i], b[i], c[i]));
}

__global__ void wrong_bounds_kernel(unsigned long long* wrong) {
  unsigned long long own = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t r = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; r < std::uint64_t{1} << 32; r += step) {
    const float noise = gumbel(static_cast<std::uint32_t>(r));
    if (!(noise <= noise_at_most(static_cast<std::uint32_t>(r)) && noise <= kMostNoise)) ++own;
  }
  if (own != 0) atomicAdd(wrong, own);
}

unsigned blocks(std::size_t n) {
  return static_cast<unsigned>((n + 255) / 256);
}

}  // namespace

cudaError_t launch_probe(Function function, const float* x, float* y, std::size_t n) {
  probe_kernel<<<blocks(n), 256>>>(function, x, y, n);
  return cudaGetLastError();
}

cudaError_t launch_operation(Operation operation, const float* a, const float* b, const float* c, float* y,
                             std::size_t n) {
  operation_kernel<<<blocks(n), 256>>>(operation, a, b, c, y, n);
  return cudaGetLastError();
}

cudaError_t launch_count_wrong_bounds(unsigned long long* wrong) {
  wrong_bounds_kernel<<<2048, 256>>>(wrong);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
