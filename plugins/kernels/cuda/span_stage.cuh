// plugins/kernels/cuda/span_stage.cuh: loads a cache in int8 or E4M3 into the ring. One warp requests K8 and V8 with
// their scales into the places of a stage in shared memory. Three other warps convert each place to bf16 in a place of
// the ring (docs/numerics.md, "A cache in int8 on CUDA", "A cache in FP8"). The warps that use the ring need not know
// which cache it is.
#pragma once

#include "kernels/cuda/fp8_rows.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_mma.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda::span {

constexpr int kConverters = 96;  // threads

template <int kHeadDim, int kNumPlaces>
struct StageShape {
  static constexpr int kChunks = 4, kPlaces = kNumPlaces, kPlacesOfAHalf = kSpanChunks / kChunks;
  static constexpr int kChunkBytes = CacheChunk<kHeadDim, SpanCache::kInt8>::kElements * 2;
  static constexpr int kPlaceBytes = kChunks * kChunkBytes, kBytes = kPlaces * kPlaceBytes;
  static constexpr int kBarrierBytes = kPlaces * (8 + 8 + 8);  // full, free, and the chunks that the place holds
};

// The next place of one side, and the parity of how often that side has passed all places. One per thread; methods are
// called by whole warps. Invariant: a place is filled and emptied alternately.
template <typename Shape>
class StagePlaces {
 public:
  __device__ StagePlaces(std::uint32_t memory, std::uint32_t barriers) : memory_(memory), barriers_(barriers) {}

  // Initialises the barriers. One thread calls it, before any use.
  static __device__ void make(std::uint32_t barriers) {
    for (int i = 0; i < Shape::kPlaces; ++i) {
      make_barrier(barriers + 8 * i, 1);
      make_barrier(barriers + 8 * (Shape::kPlaces + i), kConverters);
    }
    publish_barriers();
  }

 protected:
  __device__ __forceinline__ std::uint32_t place() const { return memory_ + place_ * Shape::kPlaceBytes; }
  __device__ __forceinline__ std::uint32_t full_place() const { return barriers_ + 8 * place_; }
  __device__ __forceinline__ std::uint32_t free_place() const { return barriers_ + 8 * (Shape::kPlaces + place_); }
  __device__ __forceinline__ std::uint32_t chunks_of_place() const {
    return barriers_ + 8 * (2 * Shape::kPlaces + place_);
  }
  __device__ __forceinline__ void next_place() {
    if (++place_ == Shape::kPlaces) place_ = 0, phase_ ^= 1;
  }
  int phase_ = 0;

 private:
  const std::uint32_t memory_, barriers_;
  int place_ = 0;
};

// The side of the warp that requests. It has the interface of a Ring, which serves a bf16 cache. Methods are called by
// the whole warp. Invariant: a half takes kPlacesOfAHalf places, even if no chunk of a place is requested.
template <int kHeadDim, typename Shape>
class Stage : public StagePlaces<Shape> {
 public:
  using StagePlaces<Shape>::StagePlaces;

  __device__ __forceinline__ void request(const Bf16Bits* from, int begin, int end, bool once = false,
                                          int more_bytes = 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    first_full_ = this->full_place();
#pragma unroll
    for (int part = 0; part < Shape::kPlacesOfAHalf; ++part) {
      const int first = part * Shape::kChunks;
      const int low = max(begin, first), high = max(low, min(end, first + Shape::kChunks));
      wait_barrier(this->free_place(), this->phase_ ^ 1);
      if (lane == 0) {
        store_word_at(this->chunks_of_place(), static_cast<std::uint32_t>(low | high << 8));
        expect_bytes(this->full_place(), (high - low) * Shape::kChunkBytes + (part == 0 ? more_bytes : 0));
      }
      __syncwarp();
      if (lane >= low && lane < high) {
        const std::uint32_t to = this->place() + (lane - first) * Shape::kChunkBytes;
        once ? copy_bulk_once(to, from, Shape::kChunkBytes, this->full_place())
             : copy_bulk(to, from, Shape::kChunkBytes, this->full_place());
      }
      this->next_place();
    }
  }
  __device__ __forceinline__ void advance() {}
  __device__ __forceinline__ std::uint32_t full() const {
    return first_full_;
  }
  // Tells the converters that no further half follows.
  __device__ __forceinline__ void finish() {
    wait_barrier(this->free_place(), this->phase_ ^ 1);
    if (threadIdx.x % 32 == 0) {
      store_word_at(this->chunks_of_place(), kEnd);
      arrive(this->full_place());
    }
    this->next_place();
  }

  static constexpr std::uint32_t kEnd = 1u << 16;

 private:
  std::uint32_t first_full_ = 0;
};

__device__ __forceinline__ std::uint32_t load_word_at(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint4 load_unit_at(std::uint32_t address) {  // 16 bytes
  uint4 r;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "r"(address)
               : "memory");
  return r;
}

// Multiplies four signed bytes, or E4M3 numbers, by a scale and rounds them to bf16. A byte plus 128 becomes the low
// bits of 2^23 exactly.
template <SpanCache kCache>
__device__ __forceinline__ uint2 widened(std::uint32_t bytes, float scale) {
  if constexpr (kCache == SpanCache::kFp8) {
    std::uint32_t odd, even;
    widen_fp8(bytes, odd, even);
    const auto times = [&](std::uint32_t bits) { return __fmul_rn(__uint_as_float(bits), scale); };
    return {pack(times(even << 16), times(odd << 16)), pack(times(even & 0xffff0000u), times(odd & 0xffff0000u))};
  }
  constexpr std::uint32_t kTwo23 = 0x4b000000u;
  constexpr float kOffset = 8388608.0f + 128.0f;
  const std::uint32_t biased = bytes ^ 0x80808080u;
  float x[4];
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const float q = __fadd_rn(__uint_as_float(__byte_perm(biased, kTwo23, 0x7440 + i)), -kOffset);
    x[i] = __fmul_rn(q, scale);
  }
  return {pack(x[0], x[1]), pack(x[2], x[3])};
}

// The side of the warps that convert. `thread`: 0 .. kConverters - 1. One per thread of these warps; methods are called
// by whole warps. Invariant: each place that was filled is freed once.
template <int kHeadDim, SpanCache kCache, typename Shape, typename ItsRing>
class Converter : public StagePlaces<Shape> {
 public:
  __device__ Converter(std::uint32_t memory, std::uint32_t barriers, ItsRing& ring, int thread)
      : StagePlaces<Shape>(memory, barriers), ring_(ring), thread_(thread) {}

  // Returns false if the other side called finish().
  __device__ __forceinline__ bool convert_half() {
#pragma unroll 1
    for (int part = 0; part < Shape::kPlacesOfAHalf; ++part) {
      wait_barrier(this->full_place(), this->phase_);
      const std::uint32_t chunks = load_word_at(this->chunks_of_place());
      const bool ends = (chunks & Stage<kHeadDim, Shape>::kEnd) != 0;
      if (!ends) {
        if (part == 0) ring_.wait_free();
        convert(static_cast<int>(chunks & 0xffu), static_cast<int>(chunks >> 8), part * Shape::kChunks);
      }
      arrive(this->free_place());
      this->next_place();
      if (ends) return false;
    }
    publish_writes();
    ring_.fill();
    return true;
  }

 private:
  // Converts chunks low .. high of a half, in a place that begins with chunk `first`.
  __device__ __forceinline__ void convert(int low, int high, int first) const {
    constexpr int kUnits = kHeadDim / 16;  // of 16 numbers, in a row; a chunk has 16 rows
    const int end = (high - first) * kHeadDim;
    // Do not load three units before the first one is converted: on an H100, a prefill of 4000 tokens then took 764 us
    // instead of 714 (head_dim 128).
#pragma unroll 2
    for (int i = (low - first) * kHeadDim + thread_; i < end; i += kConverters) {
      const int chunk = i / kHeadDim, at = i % kHeadDim, row = at / kUnits, unit = at % kUnits;
      const std::uint32_t from = this->place() + chunk * Shape::kChunkBytes;
      const uint4 q = load_unit_at(from + at * 16);
      const float scale = __uint_as_float(load_word_at(from + 16 * kHeadDim + row * 4));
      const uint2 x = widened<kCache>(q.x, scale), y = widened<kCache>(q.y, scale), z = widened<kCache>(q.z, scale),
                  w = widened<kCache>(q.w, scale);
      const std::uint32_t to = ring_.half() + (first + chunk) * Piece<kHeadDim>::kBytes;
      put_unit_at(to + span_offset(kHeadDim, row, unit * 16) * 2, uint4{x.x, x.y, y.x, y.y});
      put_unit_at(to + span_offset(kHeadDim, row, unit * 16 + 8) * 2, uint4{z.x, z.y, w.x, w.y});
    }
  }

  ItsRing& ring_;
  const int thread_;
};

}  // namespace mortise::cuda::span
