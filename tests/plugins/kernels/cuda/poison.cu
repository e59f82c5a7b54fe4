#include "poison.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace mortise::test {
namespace {

__global__ void fill_shared(int words) {
  extern __shared__ std::uint32_t memory[];
  volatile std::uint32_t* const written = memory;  // although nobody reads it
  for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) written[i] = 0xffffffffu;
}

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("poison shared memory: ") + cudaGetErrorString(error));
}

}  // namespace

void poison_shared_memory() {
  int multiprocessors = 0, bytes = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  check(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  check(cudaDeviceSynchronize());
  // A block has all of a multiprocessor, so that each multiprocessor gets one.
  fill_shared<<<multiprocessors, 1024, bytes>>>(bytes / 4);
  check(cudaGetLastError());
  check(cudaDeviceSynchronize());
}

}  // namespace mortise::test
