// plugins/kernels/cuda/bulk.cuh: bulk copies from global to shared memory by TMA, the Tensor Memory Accelerator
// (cp.async.bulk), and the barriers in shared memory that report their completion.
#pragma once

#include <cstdint>

namespace mortise::cuda {

// A barrier counts arrivals and copied bytes. One thread initialises it, before a __syncthreads.
__device__ __forceinline__ void make_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Initialises `count` barriers, the first at `first` and each 8 bytes further on; called by all threads of a block. One
// lane of each warp takes its share: the instruction has its address in a uniform register, so lanes of a warp with
// addresses of their own go one after another, 36 ns each (H100). A hundred barriers in one warp delayed a kernel by 4
// us.
__device__ __forceinline__ void make_barriers(std::uint32_t first, int count, int arrivals) {
  if (threadIdx.x % 32 != 0) return;
  for (unsigned i = threadIdx.x / 32; i < static_cast<unsigned>(count); i += blockDim.x / 32) {
    make_barrier(first + 8 * i, arrivals);
  }
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
// Whether the phase (0, 1, 0, ..) is complete: all threads have arrived, and the expected bytes were copied.
__device__ __forceinline__ bool has_come(std::uint32_t barrier, int phase) {
  std::uint32_t there;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(there)
               : "r"(barrier), "r"(phase)
               : "memory");
  return there != 0;
}
// Returns whether the phase has completed, without waiting.
__device__ __forceinline__ bool has_come_already(std::uint32_t barrier, int phase) {
  std::uint32_t there;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(there)
               : "r"(barrier), "r"(phase)
               : "memory");
  return there != 0;
}
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, int phase) {
  while (!has_come(barrier, phase)) {
  }
}
// Copies a contiguous piece to shared memory. Its bytes count towards the barrier.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
// The L2 policy for data that is not read again soon: evict it first, so that KV and partials stay in the L2.
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
// Chooses one lane of a warp, whose lanes all call it. The compiler knows that it is one, and issues requests for copies
// without a loop over lanes.
__device__ __forceinline__ bool is_elected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}
// Clusters: thread blocks that run at the same time and reach each other's shared memory.
// The number of this block in its cluster.
__device__ __forceinline__ std::uint32_t rank_in_cluster() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Waits for all threads of the cluster.
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Arrives at the barrier of block `rank` that is where `barrier` is in this block.
__device__ __forceinline__ void arrive_in_cluster(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// Makes writes of other threads, for which this thread has waited, visible to its bulk copies.
__device__ __forceinline__ void see_writes() {
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace mortise::cuda
