// bulk.cuh: copies from global to shared memory that the copy engine makes ("bulk copies"), and the barriers in shared
// memory that tell when they have come.
#pragma once

#include <cstdint>

namespace mortise::cuda {

// Barriers in shared memory that count arrivals and the bytes of copies. One thread makes them, before a __syncthreads.
__device__ __forceinline__ void make_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void expect_bytes(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Whether all have arrived in this phase (0, 1, 0, ..), and the bytes that were expected.
__device__ __forceinline__ bool has_come(std::uint32_t barrier, int phase) {
  std::uint32_t there;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(there)
               : "r"(barrier), "r"(phase)
               : "memory");
  return there != 0;
}
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, int phase) {
  while (!has_come(barrier, phase)) {
  }
}
// A copy to shared memory in one piece.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// The cache policy for data that is not read again soon. It is evicted first, so that KV and partials stay in the L2.
__device__ __forceinline__ std::uint64_t policy_of_what_is_read_once() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier,
                                          std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_bulk_once(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  copy_bulk(to, from, bytes, barrier, policy_of_what_is_read_once());
}
// What others wrote to memory, and this thread has waited for, can be read by its copies.
__device__ __forceinline__ void see_writes() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace mortise::cuda
