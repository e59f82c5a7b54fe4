// The prefill kernel: many rows of one sequence; limited by arithmetic. A block has one tile of 128 rows, a warp 16 of
// them. The block goes through the spans in order; while it computes with one, the next is copied to shared memory.
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_rows.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kWarps = kPrefillRows / 16;
constexpr int kThreads = kWarps * 32;

template <int kHeadDim>
struct Shape {
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kPieceBytes = Piece<kHeadDim>::kBytes;   // 16 rows
  static constexpr int kHalfBytes = kSpanChunks * kPieceBytes;  // K or V of a span
  static constexpr int kQueryBytes = kWarps * kPieceBytes;
  static constexpr int kBlockBytes = kQueryBytes + 4 * kHalfBytes;  // two spans
};

template <int kHeadDim>
class Tile {
 public:
  __device__ Tile(const SpanArgs& args, const SpanRun& run, std::uint32_t memory)
      : args_(args),
        run_(run),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        queries_(memory + warp_ * Shape<kHeadDim>::kPieceBytes),
        spans_(memory + Shape<kHeadDim>::kQueryBytes),
        num_rows_(run.num_tokens * run.num_heads),
        last_(run.position + run.num_tokens - 1) {
    const int first_row = warp_ * 16;
    working_ = first_row < num_rows_;
    first_position_ = run.position + first_row / run.num_heads;
    last_position_ = min(last_, run.position + (first_row + 15) / run.num_heads);
  }

  __device__ void attend() {
    copy_queries();
    int block = load_block(run_.span_begin);
    copy_span(run_.span_begin, block);
    if (run_.span_begin + 1 < run_.span_end) block = load_block(run_.span_begin + 1);
    float o[kHeadDim / 8][4], m[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;
#pragma unroll 1
    for (int span = run_.span_begin; span < run_.span_end; ++span) {
      if (span + 1 < run_.span_end) {
        copy_span(span + 1, block);
        if (span + 2 < run_.span_end) block = load_block(span + 2);
      } else {
        commit_copies();
        commit_copies();
      }
      do_span(span, o, m, sum);
      __syncthreads();  // all have read this span: the next but one takes its place
    }
    if (working_) write(o, sum);
  }

 private:
  // The rows of this warp, as the cache has its rows. No other warp reads them.
  __device__ void copy_queries() {
    for (int i = lane_; i < 16 * kHeadDim / 8; i += 32) {
      const int row = i / (kHeadDim / 8), unit = i % (kHeadDim / 8);
      const int tile_row = warp_ * 16 + row, token = tile_row / run_.num_heads;
      const bool real = tile_row < num_rows_;
      const Bf16Bits* from = args_.q;
      if (real) {
        from += (run_.row + token) * args_.q_row_stride +
                (run_.head + tile_row - token * run_.num_heads) * args_.q_head_stride + unit * 8;
      }
      copy_async(queries_ + span_offset(kHeadDim, row, unit * 8) * 2, from, real ? 16 : 0);
    }
  }

  // Each warp brings one chunk of K and of V; this is the block in which it lies.
  __device__ __forceinline__ int load_block(int span) const {
    const Chunks chunks = chunks_of(span, run_.position, last_, args_.window);
    if (warp_ < chunks.begin || warp_ >= chunks.end) return 0;
    return args_.block_table[run_.table + ((span * kSpan + warp_ * kKeyChunk) >> args_.layout.block_shift)];
  }

  // Two groups of copies: K, then V.
  __device__ __forceinline__ void copy_span(int span, int block) {
    const Chunks chunks = chunks_of(span, run_.position, last_, args_.window);
    const bool mine = warp_ >= chunks.begin && warp_ < chunks.end;
    const int key = span * kSpan + warp_ * kKeyChunk;
    const Bf16Bits* from =
        args_.kv + block * static_cast<std::int64_t>(args_.layout.block_elements) +
        static_cast<std::int64_t>(run_.kv_head) * static_cast<std::int64_t>(args_.layout.head_elements) +
        (key & (args_.layout.block_size - 1)) * kHeadDim;
    const std::uint32_t to = keys_of(span) + warp_ * Shape<kHeadDim>::kPieceBytes;
    if (mine) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) copy_async(to + (i * 32 + lane_) * 16, from + (i * 32 + lane_) * 8);
    }
    commit_copies();
    if (mine) {
      from += args_.layout.block_size * kHeadDim;
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        const int unit = i * 32 + lane_;
        // V beyond the last key counts as 0: what lies there may be NaN, and 0 x NaN is NaN.
        const int token = unit / kHeadDim * 8 + unit / 8 % 8;
        copy_async(to + Shape<kHeadDim>::kHalfBytes + unit * 16, from + unit * 8, key + token > last_ ? 0 : 16);
      }
    }
    commit_copies();
  }

  __device__ __forceinline__ std::uint32_t keys_of(int span) const {
    return spans_ + (span & 1) * 2 * Shape<kHeadDim>::kHalfBytes;
  }

  __device__ __forceinline__ void do_span(int span, float (&o)[kHeadDim / 8][4], float (&m)[2], float (&sum)[2]) {
    // Chunks that no row of this warp sees have P = 0: leaving them out changes no bit.
    Chunks chunks = chunks_of(span, first_position_, last_position_, args_.window);
    if (!working_) chunks = {0, 0};
    const std::uint32_t keys = keys_of(span), values = keys + Shape<kHeadDim>::kHalfBytes;
    wait_copies<3>();  // of this span's K, V and the next one's two
    __syncthreads();
    Probabilities p;
    float m2[2];
    if (chunks.begin < chunks.end) weigh(span, chunks, keys, m2, p);
    wait_copies<2>();
    __syncthreads();
    if (chunks.begin < chunks.end) add(chunks, values, m2, p, o, m, sum);
  }

  __device__ __forceinline__ void weigh(int span, Chunks chunks, std::uint32_t keys, float (&m2)[2], Probabilities& p) {
    const std::uint32_t by_units = Piece<kHeadDim>::lane_by_units(lane_),
                        by_rows = Piece<kHeadDim>::lane_by_rows(lane_);
    Scores s;
#pragma unroll
    for (int i = 0; i < kKeyTiles; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
    for (int step = 0; step < Shape<kHeadDim>::kSteps; ++step) {
      std::uint32_t q[4];
      load_matrices(q, Piece<kHeadDim>::address(queries_, by_rows, step));
#pragma unroll
      for (int c = 0; c < kSpanChunks; ++c) {
        if (c < chunks.begin || c >= chunks.end) continue;
        std::uint32_t k[4];
        load_matrices(k, Piece<kHeadDim>::address(keys + c * Shape<kHeadDim>::kPieceBytes, by_units, step));
        mma(s[2 * c], q, k[0], k[1]);
        mma(s[2 * c + 1], q, k[2], k[3]);
      }
    }
    const bool masked = !sees_all(span, first_position_, last_position_, args_.window);
    const int first_key = span * kSpan + 2 * (lane_ % 4);
    m2[0] = softmax<0>(s, visible_at(position(0), args_.window), first_key, args_.scale, masked, p);
    m2[1] = softmax<1>(s, visible_at(position(1), args_.window), first_key, args_.scale, masked, p);
  }

  // The partial's O, merged into what is folded so far.
  __device__ __forceinline__ void add(Chunks chunks, std::uint32_t values, const float (&m2)[2], const Probabilities& p,
                                      float (&o)[kHeadDim / 8][4], float (&m)[2], float (&sum)[2]) {
    const std::uint32_t by_rows = Piece<kHeadDim>::lane_by_rows(lane_);
    float o2[kHeadDim / 8][4], sums[4] = {};
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) o2[i][0] = o2[i][1] = o2[i][2] = o2[i][3] = 0.0f;
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      if (c < chunks.begin || c >= chunks.end) continue;
      add_values<kHeadDim>(o2, sums, p[c], values + c * Shape<kHeadDim>::kPieceBytes, by_rows);
    }
    const Weights w[2] = {merge_weights(m[0], m2[0]), merge_weights(m[1], m2[1])};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = merged(sum[half], checked_sum(sums[2 * half], m2[half]), w[half]);
      m[half] = w[half].m;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        o[i][2 * half] = merged(o[i][2 * half], o2[i][2 * half], w[half]);
        o[i][2 * half + 1] = merged(o[i][2 * half + 1], o2[i][2 * half + 1], w[half]);
      }
    }
  }

  __device__ __forceinline__ int tile_row(int half) const {
    return warp_ * 16 + lane_ / 4 + 8 * half;
  }
  __device__ __forceinline__ int position(int half) const {
    return run_.position + tile_row(half) / run_.num_heads;
  }

  __device__ void write(const float (&o)[kHeadDim / 8][4], const float (&sum)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile_row(half), token = row / run_.num_heads;
      if (row >= num_rows_) continue;
      Bf16Bits* out = args_.out + (run_.row + token) * args_.out_row_stride +
                      (run_.head + row - token * run_.num_heads) * args_.out_head_stride + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) store_pair(out + 8 * i, o[i][2 * half], o[i][2 * half + 1], sum[half]);
    }
  }

  const SpanArgs& args_;
  const SpanRun& run_;
  const int warp_, lane_;
  const std::uint32_t queries_, spans_;
  const int num_rows_;
  const int last_;                      // position of the tile's last row
  int first_position_, last_position_;  // of this warp's rows
  bool working_;
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_kernel(const __grid_constant__ SpanArgs args, const SpanRun* runs) {
  extern __shared__ uint4 memory[];
  const SpanRun run = runs[blockIdx.x];
  Tile<kHeadDim>(args, run, shared_address(memory)).attend();
}

template <int kHeadDim>
cudaError_t launch(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, cudaStream_t stream) {
  prefill_kernel<kHeadDim>
      <<<static_cast<unsigned>(num_runs), kThreads, Shape<kHeadDim>::kBlockBytes, stream>>>(args, runs);
  return cudaGetLastError();
}

template <int kHeadDim>
cudaError_t prepare() {
  return cudaFuncSetAttribute(prefill_kernel<kHeadDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape<kHeadDim>::kBlockBytes);
}

}  // namespace

cudaError_t span_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, cudaStream_t stream) {
  if (num_runs == 0) return cudaSuccess;
  return args.layout.head_dim == 128 ? launch<128>(args, runs, num_runs, stream)
                                     : launch<64>(args, runs, num_runs, stream);
}

cudaError_t span_prefill_prepare() {
  const cudaError_t error = prepare<64>();
  return error != cudaSuccess ? error : prepare<128>();
}

}  // namespace mortise::cuda
