// span_launch.cuh: kernels that may begin before the one before them in the stream has ended ("programmatic dependent
// launch"): what they need of the launch, and of memory that no kernel writes, is there when their turn comes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace mortise::cuda::span {

// Until all kernels before have ended and what they wrote is seen. Every thread of an overlapped kernel calls it, also
// one that has nothing to do: the kernel after relies on this one ending after those before.
__device__ __forceinline__ void wait_for_kernel_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// From when all blocks have said so, blocks of the next kernel may take what place there is.
__device__ __forceinline__ void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_overlapped(void (*kernel)(Parameters...), std::int32_t num_blocks, std::int32_t num_threads,
                              std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(num_threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace mortise::cuda::span
