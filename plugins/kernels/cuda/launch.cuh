// plugins/kernels/cuda/launch.cuh: launches a kernel that may start before the preceding kernel of the stream has ended
// ("programmatic dependent launch"). Such a kernel starts on free multiprocessors, does work that depends on no kernel
// (barriers, loading weights and uploaded lists), and then waits for the preceding kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

// Waits until all preceding kernels have ended and their writes are visible. Every thread of an overlapped kernel must
// call it, even an idle one: the following kernel relies on this kernel ending after the preceding ones. Before the
// call a kernel writes nothing to global memory and reads nothing there that a kernel writes.
__device__ __forceinline__ void wait_for_kernel_before() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// Once all blocks of this kernel have called this, blocks of the next kernel may start on free multiprocessors.
__device__ __forceinline__ void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_overlapped(void (*kernel)(Parameters...), dim3 grid, std::int32_t num_threads,
                              std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(num_threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace mortise::cuda
