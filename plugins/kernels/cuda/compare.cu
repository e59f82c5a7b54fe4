#include "kernels/cuda/compare.hpp"

#include <algorithm>

#include "kernels/cuda/bf16.cuh"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 132 * 8;  // eight for each multiprocessor of an H100 or H200; more would only queue

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

// splitmix64. Source: Steele, Lea, Flood, OOPSLA 2014.
__device__ std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__global__ void random_kernel(std::uint16_t* p, std::int64_t count, float scale, std::uint32_t seed) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const std::uint64_t z = mix((static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ull + seed);
    // The sum of four uniform numbers is close enough to a normal one.
    float sum = -2.0f;
    for (int j = 0; j < 4; ++j) sum += static_cast<float>(z >> (16 * j) & 0xffffu) * 0x1p-16f;
    p[i] = to_bf16(sum * 1.7320508f * scale);
  }
}

__global__ void difference_kernel(const std::uint32_t* a, const std::uint32_t* b, std::int64_t words,
                                  unsigned long long* differences) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  unsigned long long count = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < words; i += stride) {
    count += a[i] != b[i];
  }
  if (count > 0) atomicAdd(differences, count);
}

}  // namespace

cudaError_t launch_random(std::uint16_t* p, std::int64_t count, float scale, std::uint32_t seed, cudaStream_t stream) {
  random_kernel<<<blocks_for(count), kThreads, 0, stream>>>(p, count, scale, seed);
  return cudaGetLastError();
}

cudaError_t launch_count_differences(const void* a, const void* b, std::int64_t words, unsigned long long* differences,
                                     cudaStream_t stream) {
  difference_kernel<<<blocks_for(words), kThreads, 0, stream>>>(
      static_cast<const std::uint32_t*>(a), static_cast<const std::uint32_t*>(b), words, differences);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
