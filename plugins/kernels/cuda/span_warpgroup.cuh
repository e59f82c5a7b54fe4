// span_warpgroup.cuh: 64 rows that the four warps of a warpgroup have, 16 each, against one span: both products on
// wgmma, the softmax in registers. K and V come out of a ring, q lies in shared memory as the cache has its rows.
#pragma once

#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda::span {

constexpr int kWarpgroupRows = 64;
static_assert(kSpan == 128, "the products are for 128 keys");

// What a lane has of a partial, or of what is folded so far: rows l / 4 and l / 4 + 8 of its warp, of them elements
// 8 i + 2 (l % 4) and the next.
template <int kHeadDim>
struct WarpgroupPartial {
  float m[2], sum[2], o[kHeadDim / 8][4];
};

template <int kHeadDim>
__device__ __forceinline__ void clear(WarpgroupPartial<kHeadDim>& partial) {
#pragma unroll
  for (int half = 0; half < 2; ++half) partial.m[half] = -infinity(), partial.sum[half] = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeadDim / 8; ++i) partial.o[i][0] = partial.o[i][1] = partial.o[i][2] = partial.o[i][3] = 0.0f;
}

template <int kHeadDim>
__device__ __forceinline__ void fold(WarpgroupPartial<kHeadDim>& left, const WarpgroupPartial<kHeadDim>& right) {
  const Weights w[2] = {merge_weights(left.m[0], right.m[0]), merge_weights(left.m[1], right.m[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    left.sum[half] = merged(left.sum[half], right.sum[half], w[half]);
    left.m[half] = w[half].m;
  }
#pragma unroll
  for (int i = 0; i < kHeadDim / 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) left.o[i][j] = merged(left.o[i][j], right.o[i][j], w[j / 2]);
  }
}

template <int kHeadDim>
struct WarpgroupMatrix {
  static constexpr int kColumnsStride = 1024, kRowsStride = kHeadDim / 64 * 1024;  // of the cache and of q
};

// A matrix of ones in shared memory, whose product with P are the sums of its rows. Once a block, before a
// __syncthreads.
constexpr int kOnesBytes = 16 * 8 * 2;
__device__ __forceinline__ void make_ones(char* memory) {
  if (threadIdx.x < kOnesBytes / 4) reinterpret_cast<std::uint32_t*>(memory)[threadIdx.x] = kOnes;
  publish_writes();
}

// Maxima and weights; takes K from the ring. `masked`: some row of the warp does not see some key of the span.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void weigh_span(Ring& ring, std::uint32_t queries, int span, const Visible (&sees)[2],
                                           bool masked, float scale, float (&m)[2], Probabilities& p) {
  constexpr int kRowsStride = WarpgroupMatrix<kHeadDim>::kRowsStride;
  Scores s;
  ring.wait_full();
  const std::uint64_t q = matrix(queries, 16, kRowsStride), k = matrix(ring.half(), 16, kRowsStride);
  begin_products();
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int at = step / 4 * 1024 + step % 4 * 32;
    product(s, moved(q, at), moved(k, at), step != 0);
  }
  commit_products();
  wait_products();
  hold(s);
  ring.leave();
  const int first_key = span * kSpan + 2 * (static_cast<int>(threadIdx.x) % 4);
  if (masked) hide(s, sees, first_key);
  m[0] = row_max<0>(s, scale);
  m[1] = row_max<1>(s, scale);
  row_weights<0>(s, scale, m[0], p);
  row_weights<1>(s, scale, m[1], p);
  if (masked) hide(p, sees, first_key);
}

// The rest of the partial, whose maxima are there; takes V from the ring. The sums are products with `ones` (an address
// that make_ones had) on wgmma too: `mma` would wait for the other warpgroup's.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void add_span(Ring& ring, std::uint32_t ones, const Probabilities& p,
                                         WarpgroupPartial<kHeadDim>& out) {
  using Matrix = WarpgroupMatrix<kHeadDim>;
  ring.wait_full();
  const std::uint64_t values = matrix(ring.half(), Matrix::kColumnsStride, Matrix::kRowsStride);
  float sums[1][4];
  begin_products();
#pragma unroll
  for (int c = 0; c < kSpanChunks; ++c) {
    product(out.o, p[c], moved(values, c * Piece<kHeadDim>::kBytes), c != 0);
    product(sums, p[c], small_matrix(ones), c != 0);
  }
  commit_products();
  wait_products();
  hold(out.o);
  hold(sums);
  ring.leave();
  out.sum[0] = checked_sum(sums[0][0], out.m[0]), out.sum[1] = checked_sum(sums[0][2], out.m[1]);
}

}  // namespace mortise::cuda::span
