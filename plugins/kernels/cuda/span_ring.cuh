// plugins/kernels/cuda/span_ring.cuh: passes K and V to the warps of a thread block: halves of spans (K or V) in a few
// places of shared memory, used in turn. One warp requests them and the other warps use them; barriers in shared memory
// tell each side when a place is full or free.
#pragma once

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_mma.cuh"
#include "kernels/cuda/span_stage.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda::span {

// Places of the decode kernel's ring: as many as fit, and enough to keep memory busy.
constexpr int decode_places(int head_dim) {
  return head_dim == 32 || head_dim == 80 || head_dim == 96 || head_dim == 192 ? 4 : 3;
}

// kUsers: threads that use the ring. kFillers: threads that fill a place, 1 if copies fill it.
template <int kHeadDim, int kNumPlaces = decode_places(kHeadDim), int kUsers = 32 * kDecodeWarps, int kFillers = 1>
struct RingShape {
  static constexpr int kPlaces = kNumPlaces, kNumUsers = kUsers, kNumFillers = kFillers;
  static constexpr int kHalfBytes = kSpan * kHeadDim * 2;
  static constexpr int kBytes = kPlaces * kHalfBytes;
  static constexpr int kBarrierBytes = 2 * 8 * kPlaces;
};

// One side's view: the next place, and how often all places have been passed. One per thread; methods are called by
// whole warps. Invariant: a place is filled and emptied alternately.
template <int kHeadDim, typename ItsShape = RingShape<kHeadDim>>
class Ring {
 public:
  using Shape = ItsShape;
  __device__ Ring(std::uint32_t memory, std::uint32_t barriers) : memory_(memory), barriers_(barriers) {}

  // Initialises the barriers. Called by one thread, before any use of the ring.
  static __device__ void make(std::uint32_t barriers) {
    for (int i = 0; i < Shape::kPlaces; ++i) {
      make_barrier(barriers + 8 * i, Shape::kNumFillers);
      make_barrier(barriers + 8 * (Shape::kPlaces + i), Shape::kNumUsers);
    }
    publish_barriers();
  }

  // For the warp that fills the ring, all lanes: requests chunks begin .. end of a half as soon as the place is free.
  // Lane i passes the address of chunk i. `once`: the data is not read again soon. `more_bytes`: bytes of further
  // copies that the caller requests with the barrier full() before it calls `advance`.
  __device__ __forceinline__ void request(const Bf16Bits* from, int begin, int end, bool once = false,
                                          int more_bytes = 0) const {
    using Chunk = Piece<kHeadDim>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (once) wait_for_oldest();
    wait_barrier(free(), phase_ ^ 1);
    if (lane == 0) expect_bytes(full(), (end - begin) * Chunk::kBytes + more_bytes);
    __syncwarp();
    if (lane < begin || lane >= end) return;
    const std::uint32_t to = half() + lane * Chunk::kBytes;
    once ? copy_bulk_once(to, from, Chunk::kBytes, full()) : copy_bulk(to, from, Chunk::kBytes, full());
  }
  // For threads that fill a place without copies: wait_free() waits until the place is free. The half is complete once
  // all of them have called fill().
  __device__ __forceinline__ void wait_free() const { wait_barrier(free(), phase_ ^ 1); }
  __device__ __forceinline__ void fill() {
    arrive(full());
    advance();
  }
  // For the warps that use the ring: waits until the half is complete.
  __device__ __forceinline__ void wait_full() const { wait_barrier(full(), phase_); }
  // This lane no longer needs the half.
  __device__ __forceinline__ void leave() {
    arrive(free());
    advance();
  }
  __device__ __forceinline__ void advance() {
    if (++place_ == Shape::kPlaces) place_ = 0, phase_ ^= 1;
  }
  __device__ __forceinline__ std::uint32_t half() const { return memory_ + place_ * Shape::kHalfBytes; }
  __device__ __forceinline__ std::uint32_t full() const { return barriers_ + 8 * place_; }

 private:
  // Waits for the oldest half that may be in flight. With one half fewer in flight the copies are as fast, and the
  // queue to memory, in which all requests wait, is shorter.
  __device__ __forceinline__ void wait_for_oldest() const {
    const bool wraps = place_ + 1 == Shape::kPlaces;
    wait_barrier(barriers_ + (wraps ? 0 : 8 * (place_ + 1)), wraps ? phase_ : phase_ ^ 1);
  }
  __device__ __forceinline__ std::uint32_t free() const { return barriers_ + 8 * (Shape::kPlaces + place_); }

  const std::uint32_t memory_, barriers_;
  int place_ = 0, phase_ = 0;
};

// In the decode kernel: the ring, and the object that the warp requests K and V with, which is a stage for a cache
// in bytes.
constexpr int decode_stage_places(int head_dim) {
  return head_dim == 80 || head_dim == 96 || head_dim == 128 || head_dim == 256 ? 3 : 4;
}
template <int kHeadDim>
using DecodeStageShape = StageShape<kHeadDim, decode_stage_places(kHeadDim)>;
template <int kHeadDim, SpanCache kCache>
using DecodeRing = Ring<kHeadDim, RingShape<kHeadDim, in_bytes(kCache) ? 2 : decode_places(kHeadDim), 32 * kDecodeWarps,
                                            in_bytes(kCache) ? kConverters : 1>>;
template <int kHeadDim, SpanCache kCache>
using DecodeSource =
    std::conditional_t<in_bytes(kCache), Stage<kHeadDim, DecodeStageShape<kHeadDim>>, DecodeRing<kHeadDim, kCache>>;

// In the decode kernel: synchronises the warps that use the ring.
__device__ __forceinline__ void sync_users() {
  asm volatile("bar.sync 1, %0;" ::"n"(kDecodeWarps * 32) : "memory");
}

// Synchronises all warps of the block. Warps that use the ring and the warp that fills it call this at different places
// in the code, which __syncthreads does not allow.
__device__ __forceinline__ void sync_all() {
  asm volatile("barrier.sync 2, %0;" ::"n"(2 * kDecodeWarps * 32) : "memory");
}

}  // namespace mortise::cuda::span
