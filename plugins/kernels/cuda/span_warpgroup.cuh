// plugins/kernels/cuda/span_warpgroup.cuh: computes 64 rows of a warpgroup, 16 for each of its four warps, against one
// span: both products with wgmma, the softmax in registers. K and V come from a ring, and q is in shared memory in the
// cache's order of rows.
#pragma once

#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace mortise::cuda::span {

constexpr int kWarpgroupRows = 64;
static_assert(kSpan == 128, "the products are for 128 keys");

// A lane's part of a partial, or of the result folded so far: rows l / 4 and l / 4 + 8 of its warp, and of these
// elements 8 i + 2 (l % 4) and the next.
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

// Exponents and sums of one span's partial for the lane's two rows.
struct WarpgroupStats {
  float m[2], sum[2];
};

// O of a span is computed in passes of this many columns. For large heads a thread's registers have room for only some
// columns beside the folded result.
template <int kHeadDim>
constexpr int kPassColumns = kHeadDim <= 128 ? kHeadDim : 64;

// A matrix of ones in shared memory; its product with P gives the sums of P's rows. Made once per thread block, before
// a __syncthreads.
constexpr int kOnesBytes = 16 * 8 * 2;
__device__ __forceinline__ void make_ones(char* memory) {
  if (threadIdx.x < kOnesBytes / 4) reinterpret_cast<std::uint32_t*>(memory)[threadIdx.x] = kOnes;
  publish_writes();
}

// Starts the products q K^T of a span as soon as the ring has K.
template <int kHeadDim, typename Ring>
__device__ __forceinline__ void begin_scores(const Ring& ring, std::uint32_t queries, Scores& s) {
  using Rows = Piece<kHeadDim>;
  ring.wait_full();
  const std::uint64_t q = matrix(queries, 16, Rows::kRowsStride, Rows::kColumns);
  const std::uint64_t k = matrix(ring.half(), 16, Rows::kRowsStride, Rows::kColumns);
  begin_products();
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const int at = step / Rows::kPairs * Rows::kColumnsStride + step % Rows::kPairs * 32;
    product(s, moved(q, at), moved(k, at), step != 0);
  }
  commit_products();
}

// Waits for them; K is no longer needed.
template <typename Ring>
__device__ __forceinline__ void end_scores(Ring& ring, Scores& s) {
  wait_products();
  hold(s);
  ring.leave();
}

// Weighs the scores of chunks kBegin .. kEnd, whose rows have exponents m.
template <int kBegin, int kEnd>
__device__ __forceinline__ void weigh(const Scores& s, const float (&m)[2], float scale, const Visible (&sees)[2],
                                      bool masked, int first_key, Probabilities& p) {
  row_probabilities<0, kBegin, kEnd>(s, scale, m[0], p);
  row_probabilities<1, kBegin, kEnd>(s, scale, m[1], p);
  if (masked) hide<kBegin, kEnd>(p, sees, first_key);
}

// Starts the products of the first pass and of the sums with chunks kBegin .. kEnd.
template <int kHeadDim, int kBegin, int kEnd, int kTiles>
__device__ __forceinline__ void begin_values(const Probabilities& p, std::uint64_t values, std::uint32_t ones,
                                             float (&o)[kTiles][4], float (&sums)[1][4]) {
  using Rows = Piece<kHeadDim>;
  begin_products();
#pragma unroll
  for (int c = kBegin; c < kEnd; ++c) {
    product(o, p[c], moved(values, c * Rows::kBytes), c != 0);
    product(sums, p[c], small_matrix(ones), c != 0);
  }
  commit_products();
}

// Computes the partial of a span from its scores; takes V from the ring. `masked`: some row of the warp does not see
// some key of the span. Calls before() before the first products, and use(pass, o) with O of the columns of a pass;
// from the first pass on, `stats` is complete. The sums are products with `ones` (the address that make_ones got), also
// with wgmma, because `mma` would wait for the other warpgroup's products.
template <int kHeadDim, typename Ring, typename Before, typename Use>
__device__ __forceinline__ void add_span(Ring& ring, std::uint32_t ones, int span, const Visible (&sees)[2],
                                         bool masked, float scale, Scores& s, WarpgroupStats& stats, Before&& before,
                                         Use&& use) {
  using Rows = Piece<kHeadDim>;
  constexpr int kColumns = kPassColumns<kHeadDim>, kPasses = kHeadDim / kColumns;
  static_assert(kPasses == 1 || kColumns % Rows::kColumns == 0);
  // The tensor cores multiply the first weights while the others are computed.
  constexpr int kFirst = kSpanChunks / 2;
  const int first_key = span * kSpan + 2 * (static_cast<int>(threadIdx.x) % 4);
  if (masked) hide(s, sees, first_key);
  stats.m[0] = row_exponent<0>(s, scale);
  stats.m[1] = row_exponent<1>(s, scale);
  Probabilities p;
  float o[kColumns / 8][4], sums[1][4];
  weigh<0, kFirst>(s, stats.m, scale, sees, masked, first_key, p);
  ring.wait_full();
  const std::uint64_t values = matrix(ring.half(), Rows::kColumnsStride, Rows::kRowsStride, Rows::kColumns);
  before();
  begin_values<kHeadDim, 0, kFirst>(p, values, ones, o, sums);
  weigh<kFirst, kSpanChunks>(s, stats.m, scale, sees, masked, first_key, p);
  begin_values<kHeadDim, kFirst, kSpanChunks>(p, values, ones, o, sums);
  wait_products();
  hold(o);
  hold(sums);
  if constexpr (kPasses == 1) ring.leave();
  stats.sum[0] = checked_sum(sums[0][0], stats.m[0]);
  stats.sum[1] = checked_sum(sums[0][2], stats.m[1]);
  use(0, o);
#pragma unroll
  for (int pass = 1; pass < kPasses; ++pass) {
    begin_products();
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      product(o, p[c], moved(values, c * Rows::kBytes + pass * kColumns / Rows::kColumns * Rows::kColumnsStride),
              c != 0);
    }
    commit_products();
    wait_products();
    hold(o);
    if (pass == kPasses - 1) ring.leave();
    use(pass, o);
  }
}

// Merges the result of add_span, pass after pass, from the first pass on. One per thread of the warpgroup; methods are
// called by the whole warpgroup. Invariant: after pass p, all columns of the passes up to p are merged.
template <int kHeadDim>
class SpanFold {
 public:
  static constexpr int kTiles = kPassColumns<kHeadDim> / 8;
  __device__ SpanFold(WarpgroupPartial<kHeadDim>& folded, const WarpgroupStats& stats)
      : folded_(folded), stats_(stats) {}

  __device__ __forceinline__ void operator()(int pass, const float (&o)[kTiles][4]) {
    if (pass == 0) {
      w_[0] = merge_factors(folded_.m[0], stats_.m[0]), w_[1] = merge_factors(folded_.m[1], stats_.m[1]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        folded_.sum[half] = merged(folded_.sum[half], stats_.sum[half], w_[half]);
        folded_.m[half] = w_[half].m;
      }
      scales_ = __any_sync(kWarp, w_[0].left != 1.0f || w_[1].left != 1.0f);
    }
    // What is folded keeps its scale nearly always, and times 1 changes no bit.
    if (scales_) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& left = folded_.o[pass * kTiles + i][j];
          left = merged(left, o[i][j], w_[j / 2]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& left = folded_.o[pass * kTiles + i][j];
          left = fma(o[i][j], w_[j / 2].right, left);
        }
      }
    }
  }

 private:
  WarpgroupPartial<kHeadDim>& folded_;
  const WarpgroupStats& stats_;
  MergeFactors w_[2];
  bool scales_ = false;
};

}  // namespace mortise::cuda::span
