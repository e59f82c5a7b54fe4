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
// GPUs before compute capability 9.0 start no kernel early, so both functions do nothing there.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once all blocks of this kernel have called this, blocks of the next kernel may start on free multiprocessors.
__device__ __forceinline__ void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether the current device can start a kernel before the preceding kernel ends.
inline cudaError_t can_overlap(bool& can) {
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  can = major >= 9;
  return error;
}

// The number of pieces of b that a needs.
inline std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_overlapped(void (*kernel)(Parameters...), dim3 grid, std::int32_t num_threads,
                              std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  bool overlaps = false;
  if (const cudaError_t error = can_overlap(overlaps); error != cudaSuccess) return error;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(num_threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace mortise::cuda
