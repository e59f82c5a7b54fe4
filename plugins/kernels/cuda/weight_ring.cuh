// plugins/kernels/cuda/weight_ring.cuh: how weights come to one warp: in pieces, through a ring of places in shared
// memory. One lane requests the pieces in the order in which the warp uses them, the first ones before the preceding
// kernels have ended.
#pragma once

#include <cstdint>

#include "kernels/cuda/bulk.cuh"

namespace mortise::cuda {

// A position in a warp's ring, and the phase of its barriers. A value. Invariant: 0 <= at < places.
struct Place {
  std::uint32_t memory, barriers;
  int places, piece_bytes, at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t piece() const { return memory + at * piece_bytes; }
  __device__ __forceinline__ std::uint32_t barrier() const { return barriers + at * 8; }
  __device__ __forceinline__ void advance() {
    if (++at == places) at = 0, phase ^= 1;
  }
};

// Requests a warp's pieces; used by one lane. `Pieces` is the sequence of pieces: ended(), load(address, barrier).
// Invariant: free_ places of the ring have no piece that is requested and not used. One per warp, in the thread of that
// lane.
template <class Pieces>
class Feeder {
 public:
  __device__ Feeder(const Pieces& pieces, const Place& first) : pieces_(pieces), next_(first), oldest_(first) {}

  // Fills the ring before the preceding kernels have ended. At most `most` pieces are in flight, so that those kernels'
  // loads do not queue behind them. Returns when the ring is full, or when the barrier `ended` says that the preceding
  // kernels have ended.
  __device__ __forceinline__ void fill_gently(int most, std::uint32_t ended) {
    while (free_ > 0 && !pieces_.ended()) {
      if (next_.places - free_ >= most) {
        while (!has_come(oldest_.barrier(), 0)) {
          if (has_come(ended, 0)) return;
        }
        oldest_.advance();
      }
      request();
    }
  }
  // Called after a piece was multiplied. Requests up to two pieces, since the ring may not be full yet.
  __device__ __forceinline__ void refill() {
    ++free_;
    for (int i = 0; i < 2 && free_ > 0 && !pieces_.ended(); ++i) request();
  }

 private:
  __device__ __forceinline__ void request() {
    pieces_.load(next_.piece(), next_.barrier());
    next_.advance();
    --free_;
  }
  Pieces pieces_;
  Place next_, oldest_;
  int free_ = next_.places;
};

}  // namespace mortise::cuda
