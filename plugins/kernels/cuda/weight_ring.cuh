// weight_ring.cuh: how weights come to one warp: pieces of them in the places of a ring in shared memory, asked for by
// one lane in the order in which the warp uses them, the first ones while the kernels before are still at work.
#pragma once

#include <cstdint>

#include "kernels/cuda/bulk.cuh"

namespace mortise::cuda {

// A place in a warp's ring.
struct Place {
  std::uint32_t memory, barriers;
  int places, piece_bytes, at = 0, phase = 0;
  __device__ __forceinline__ std::uint32_t piece() const { return memory + at * piece_bytes; }
  __device__ __forceinline__ std::uint32_t barrier() const { return barriers + at * 8; }
  __device__ __forceinline__ void advance() {
    if (++at == places) at = 0, phase ^= 1;
  }
};

// Asks for a warp's pieces. One lane uses it. `Pieces` has them in order: ended(), load(address, barrier).
template <class Pieces>
class Feeder {
 public:
  __device__ Feeder(const Pieces& pieces, const Place& first) : pieces_(pieces), next_(first), oldest_(first) {}

  // While the kernels before are at work: at most `most` pieces on their way, so that those kernels need not queue for
  // memory behind them. Returns when the ring is full or `ended` has come: the kernels before have ended.
  __device__ __forceinline__ void fill_gently(int most, std::uint32_t ended) {
    while (free_ > 0 && !pieces_.ended()) {
      if (next_.places - free_ >= most) {
        while (!has_come(oldest_.barrier(), 0)) {
          if (has_come(ended, 0)) return;
        }
        oldest_.advance();
      }
      ask();
    }
  }
  // After one more was multiplied. Two: the ring may not be full yet.
  __device__ __forceinline__ void refill() {
    ++free_;
    for (int i = 0; i < 2 && free_ > 0 && !pieces_.ended(); ++i) ask();
  }

 private:
  __device__ __forceinline__ void ask() {
    pieces_.load(next_.piece(), next_.barrier());
    next_.advance();
    --free_;
  }
  Pieces pieces_;
  Place next_, oldest_;
  int free_ = next_.places;
};

}  // namespace mortise::cuda
