// plugins/kernels/cuda/copy_async.cuh: copies of 16 bytes from global to shared memory that a thread does not wait for
// (cp.async), on every GPU since compute capability 8.0. A thread's copies form groups, which complete in their order.
#pragma once

#include <cstdint>

namespace mortise::cuda {

// Copies the first `bytes` of 16 bytes, 0 to 16; the others become zero. REQUIRES: both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// Ends a group; it may be empty.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kPending groups of this thread are incomplete.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace mortise::cuda
