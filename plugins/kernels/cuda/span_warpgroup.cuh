// span_warpgroup.cuh: 64 rows that the four warps of a warpgroup have, 16 each, against one span: both products on
// wgmma, the softmax in registers. K and V come out of a ring, q lies in shared memory as the cache has its rows.
#pragma once

#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_wgmma.cuh"

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

// Maxima and weights; takes K from the ring. `masked`: some row of the warp does not see some key of the span.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void weigh_span(Ring& ring, std::uint32_t queries, int span, const Visible (&sees)[2],
                                           bool masked, float scale, float (&m)[2], Probabilities& p) {
  constexpr int kRowsStride = WarpgroupMatrix<kHeadDim>::kRowsStride;
  Scores s;
  ring.wait_full();
  const std::uint32_t keys = ring.half();
  begin_products();
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const std::uint32_t at = static_cast<std::uint32_t>(step / 4 * 1024 + step % 4 * 32);
    product(s, matrix(queries + at, 16, kRowsStride), matrix(keys + at, 16, kRowsStride), step != 0);
  }
  commit_products();
  wait_products();
  hold(s);
  ring.leave();
  const int first_key = span * kSpan + 2 * (static_cast<int>(threadIdx.x) % 4);
  m[0] = softmax<0>(s, sees[0], first_key, scale, masked, p);
  m[1] = softmax<1>(s, sees[1], first_key, scale, masked, p);
}

// The rest of the partial, whose maxima are there; takes V from the ring.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void add_span(Ring& ring, const Probabilities& p, WarpgroupPartial<kHeadDim>& out) {
  using Matrix = WarpgroupMatrix<kHeadDim>;
  ring.wait_full();
  begin_products();
#pragma unroll
  for (int c = 0; c < kSpanChunks; ++c) {
    const std::uint32_t values = ring.half() + c * Piece<kHeadDim>::kBytes;
    product(out.o, p[c], matrix(values, Matrix::kColumnsStride, Matrix::kRowsStride), c != 0);
  }
  commit_products();
  float sums[4] = {};
#pragma unroll
  for (int c = 0; c < kSpanChunks; ++c) mma(sums, p[c], kOnes, kOnes);
  out.sum[0] = checked_sum(sums[0], out.m[0]), out.sum[1] = checked_sum(sums[2], out.m[1]);
  wait_products();
  hold(out.o);
  ring.leave();
}

}  // namespace mortise::cuda::span
