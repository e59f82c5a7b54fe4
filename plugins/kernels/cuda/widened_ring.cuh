// plugins/kernels/cuda/widened_ring.cuh: the ring in shared memory of kernels whose weights are widened by warps of
// their own (linear_fp8_widened, linear_int4_widened): "wideners" write weights, one warp loads rows of x, warpgroups
// multiply. A place of the ring has one chunk of K: the panels of a tile of weights, all rows of x, and scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/bulk.cuh"

namespace mortise::cuda {

constexpr int kMaxWidenedPlaces = 32;
constexpr int kWidenedBarrierBytes = 2 * kMaxWidenedPlaces * 8;

// What a place has, in bytes. Weights and rows are in pieces of 1024 bytes: 8 rows of 128 bytes, swizzled.
struct WidenedBytes {
  std::int32_t weights, rows, scales;
  __host__ __device__ constexpr std::int32_t all() const { return weights + rows + scales; }
};

// A place in the ring. `phase` is 0 after an even number of passes over the ring, otherwise 1. In shared memory:
// weights of all places, x of all places, scales of all places, "full" barriers, "free" barriers. Products read whole
// warpgroups of columns, so they also read the bytes that follow the last weights; nobody uses those sums.
struct WidenedPlace {
  std::uint32_t memory;
  WidenedBytes bytes;
  int places, at = 0, phase = 0;

  __device__ __forceinline__ std::uint32_t weights() const { return memory + at * bytes.weights; }
  __device__ __forceinline__ std::uint32_t rows() const { return memory + places * bytes.weights + at * bytes.rows; }
  __device__ __forceinline__ std::uint32_t scales() const {
    return memory + places * (bytes.weights + bytes.rows) + at * bytes.scales;
  }
  __device__ __forceinline__ std::uint32_t full() const { return memory + places * bytes.all() + at * 8; }
  __device__ __forceinline__ std::uint32_t free() const { return full() + kMaxWidenedPlaces * 8; }
  __device__ __forceinline__ void advance(int by = 1) {
    for (at += by; at >= places; at -= places) phase ^= 1;
  }
  // Initialises the barriers of all places; called by all threads of a block, on the first place. A place is full after
  // `arrivals` of wideners and when x has come, and free when each multiplying warp has used it.
  __device__ __forceinline__ void make_all_barriers(int arrivals, int multipliers) const {
    make_barriers(full(), places, arrivals + 1);
    make_barriers(free(), places, multipliers);
  }
};

// A panel's chunk, the unit of a widener's work. The units of a block are numbered chunk after chunk, and panel after
// panel in a chunk of a tile; of `wideners`, number i has the units i, i + wideners, ..
class WidenedUnit {
 public:
  int panel = 0, chunk = 0, tile = 0;  // tile: the block's number `tile`

  __device__ WidenedUnit(int panels, int chunks, int wideners)  // unit 0
      : panels_(panels), chunks_(chunks), places_(wideners / panels), rest_(wideners % panels) {}
  // Moves to unit number i; returns the number of places between. Called once, on unit 0.
  __device__ int begin(int i) { return move(i / panels_, i % panels_); }
  // Moves to the widener's next unit; returns the number of places between. A division each time would take longer than
  // half of the widening.
  __device__ __forceinline__ int advance() { return move(places_, rest_); }

 private:
  __device__ __forceinline__ int move(int places, int rest) {
    panel += rest;
    if (panel >= panels_) panel -= panels_, ++places;
    for (chunk += places; chunk >= chunks_; chunk -= chunks_) ++tile;
    return places;
  }
  const int panels_, chunks_;  // in a tile; in a panel
  const int places_, rest_;    // how far the next unit is
};

__device__ __forceinline__ void store_scale(std::uint32_t address, float scale) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(scale) : "memory");
}

// Loads sixteen bytes of weights, which are not read again soon.
__device__ __forceinline__ uint4 load_once(const std::byte* from, std::uint64_t policy) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from), "l"(policy));
  return v;
}

// Returns the panels of a tile with which the busiest block has the least work. For each tile x is read again, which
// costs as much as `x_cost` panels.
inline int best_widened_panels(std::int64_t panels, int num_blocks, int most, int x_cost) {
  int best = 0;
  std::int64_t least = 0;
  for (int of_tile = 1; of_tile <= most; ++of_tile) {
    const std::int64_t tiles = (panels + of_tile - 1) / of_tile, rounds = (tiles + num_blocks - 1) / num_blocks;
    const std::int64_t cost = rounds * (of_tile + x_cost);
    if (best == 0 || cost <= least) best = of_tile, least = cost;
  }
  return best;
}

}  // namespace mortise::cuda
