// plugins/kernels/cuda/lanes.cuh: the tree that ends every reduction of docs/numerics.md: of sixteen partial results,
// lane i with lane i + 8, then + 4, + 2, + 1. Whole warps call it. Lanes 0 .. 15 hold the partial results; the result
// is in lane 0.
#pragma once

namespace mortise::cuda {

constexpr int kLanes = 16;
constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ __forceinline__ float tree_sum(float lane) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) lane = __fadd_rn(lane, __shfl_down_sync(kWholeWarp, lane, half));
  return lane;
}

// The same tree in each half of the warp, over sixteen neighbouring lanes.
__device__ __forceinline__ float tree_sum_of_half(float lane) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2)
    lane = __fadd_rn(lane, __shfl_down_sync(kWholeWarp, lane, half, kLanes));
  return lane;
}

}  // namespace mortise::cuda
