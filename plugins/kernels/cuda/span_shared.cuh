// span_shared.cuh: spans that several sequences share. A tile has 64 rows of any sequences of a group, and wgmma has
// them all at once: each key is read once for 64 rows, not for the few of one sequence.
#pragma once

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"

namespace mortise::cuda::span {

static_assert(kSpan == 128 && kSharedRows == 64, "the products are for 128 keys of 64 rows");

template <int kHeadDim>
struct SharedShape {
  static constexpr int kQueries = RingShape<kHeadDim>::kBytes;
  static constexpr int kBytes = kQueries + kSharedRows * kHeadDim * 2;
  static constexpr int kColumnsStride = 1024, kRowsStride = kHeadDim / 64 * 1024;  // of the cache and of q
};

// Brings K and V of a block's runs, span after span. Lane i of its warp asks for chunk i.
template <int kHeadDim>
__device__ __forceinline__ void feed_shared(const SpanArgs& args, const SharedRun* run, const SharedRun* end,
                                            Ring<kHeadDim>& ring) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto block_of = [&](const SharedRun& of, int span) {
    const int key = span * kSpan + lane % kSpanChunks * kKeyChunk;
    return args.block_table[of.table + (key >> args.layout.block_shift)];
  };
  const auto copy_half = [&](const Bf16Bits* from) {
    ring.wait_free();
    if (lane == 0) expect_bytes(ring.full(), RingShape<kHeadDim>::kHalfBytes);
    __syncwarp();
    if (lane < kSpanChunks) {
      copy_bulk(ring.half() + lane * Piece<kHeadDim>::kBytes, from, Piece<kHeadDim>::kBytes, ring.full());
    }
    ring.advance();
  };
#pragma unroll 1
  for (; run != end; ++run) {
    const SharedRun current = *run;
    std::int64_t block = block_of(current, current.span_begin);
#pragma unroll 1
    for (int span = current.span_begin; span < current.span_end; ++span) {
      const int key = span * kSpan + lane % kSpanChunks * kKeyChunk;
      const Bf16Bits* from =
          args.kv + block * static_cast<std::int64_t>(args.layout.block_elements) +
          static_cast<std::int64_t>(current.kv_head) * static_cast<std::int64_t>(args.layout.head_elements) +
          (key & (args.layout.block_size - 1)) * kHeadDim;
      if (span + 1 < current.span_end) block = block_of(current, span + 1);  // long before it is needed
      copy_half(from);
      copy_half(from + args.layout.block_size * kHeadDim);
    }
  }
}

template <int kHeadDim>
class SharedTile {
 public:
  using Shape = SharedShape<kHeadDim>;
  __device__ SharedTile(const SpanArgs& args, const SharedRow* rows, Ring<kHeadDim>& ring, char* memory)
      : args_(args),
        rows_(rows),
        ring_(ring),
        queries_(memory + Shape::kQueries),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void do_run(const SharedRun& run) {
    load_queries(run);
    load_rows(run);
    partial_ = run.partial;
    folds_ = run.folds != 0;
    m_[0] = m_[1] = -infinity(), sum_[0] = sum_[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) o_[i][0] = o_[i][1] = o_[i][2] = o_[i][3] = 0.0f;
#pragma unroll 1
    for (int span = run.span_begin; span < run.span_end; ++span) do_span(span);
    if (folds_) write(o_, m_, sum_);
  }

 private:
  using Output = float[kHeadDim / 8][4];

  // All threads: rows of q as the cache has its rows. Rows that are not there are zeros.
  __device__ __forceinline__ void load_queries(const SharedRun& run) {
    constexpr int kUnits = kHeadDim / 8, kThreads = kDecodeWarps * 32, kEach = kSharedRows * kUnits / kThreads;
    const int group_head = run.kv_head * args_.heads_per_kv_head;
    const auto row_of = [](int i) { return (i * kThreads + static_cast<int>(threadIdx.x)) / kUnits; };
    const int unit = static_cast<int>(threadIdx.x) % kUnits;
    // All at once, one kind of load after the other: each takes long.
    std::int64_t at[kEach];
    uint4 values[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const SharedRow& from = rows_[run.first_row + min(row_of(i), run.num_rows - 1)];
      at[i] = from.row * args_.q_row_stride + (group_head + from.head) * args_.q_head_stride + unit * 8;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = *reinterpret_cast<const uint4*>(args_.q + at[i]);
    sync_users();  // all are through with those before
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (row_of(i) >= run.num_rows) values[i] = uint4{0, 0, 0, 0};
      *reinterpret_cast<uint4*>(queries_ + span_offset(kHeadDim, row_of(i), unit * 8) * 2) = values[i];
    }
    publish_writes();
    sync_users();
  }

  // What a lane needs of its two rows.
  __device__ __forceinline__ void load_rows(const SharedRun& run) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_ * 16 + lane_ / 4 + 8 * half;
      real_[half] = row < run.num_rows;
      sees_[half] = {0, 0x7fffffff};
      if (!real_[half]) continue;
      const SharedRow& from = rows_[run.first_row + row];
      sees_[half] = visible_at(from.position, args_.window);
      first_partial_[half] = from.partial + run.kv_head * from.kv_head_stride;
      partial_stride_[half] = from.partial_stride;
    }
  }

  __device__ __forceinline__ void do_span(int span) {
    Probabilities p;
    float m2[2];
    weigh(span, m2, p);
    ring_.wait_full();
    Output o2;
    begin_products();
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      const std::uint32_t values = ring_.half() + c * Piece<kHeadDim>::kBytes;
      product(o2, p[c], matrix(values, Shape::kColumnsStride, Shape::kRowsStride), c != 0);
    }
    commit_products();
    float sums[4] = {};
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) mma(sums, p[c], kOnes, kOnes);
    const float sum2[2] = {checked_sum(sums[0], m2[0]), checked_sum(sums[2], m2[1])};
    wait_products();
    hold(o2);
    ring_.leave();
    if (folds_) {
      fold(o2, m2, sum2);
    } else {
      write(o2, m2, sum2);
      ++partial_;
    }
  }

  __device__ __forceinline__ void weigh(int span, float (&m)[2], Probabilities& p) {
    Scores s;
    ring_.wait_full();
    const std::uint32_t keys = ring_.half(), queries = shared_address(queries_);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const std::uint32_t at = static_cast<std::uint32_t>(step / 4 * 1024 + step % 4 * 32);
      product(s, matrix(queries + at, 16, Shape::kRowsStride), matrix(keys + at, 16, Shape::kRowsStride), step != 0);
    }
    commit_products();
    wait_products();
    hold(s);
    ring_.leave();
    const bool masked = __any_sync(kWarp, max(sees_[0].low, sees_[1].low) > span * kSpan);
    const int first_key = span * kSpan + 2 * (lane_ % 4);
    m[0] = softmax<0>(s, sees_[0], first_key, args_.scale, masked, p);
    m[1] = softmax<1>(s, sees_[1], first_key, args_.scale, masked, p);
  }

  __device__ __forceinline__ void fold(const Output& o2, const float (&m2)[2], const float (&sum2)[2]) {
    const Weights w[2] = {merge_weights(m_[0], m2[0]), merge_weights(m_[1], m2[1])};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum_[half] = merged(sum_[half], sum2[half], w[half]);
      m_[half] = w[half].m;
    }
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) o_[i][j] = merged(o_[i][j], o2[i][j], w[j / 2]);
    }
  }

  // To the partial that is next.
  __device__ __forceinline__ void write(const Output& o, const float (&m)[2], const float (&sum)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!real_[half]) continue;
      const std::int64_t row = first_partial_[half] + partial_ * partial_stride_[half];
      float* to = args_.partials + row * kHeadDim + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      }
      if (lane_ % 4 == 0) args_.partial_stats[row] = {m[half], sum[half]};
    }
  }

  const SpanArgs& args_;
  const SharedRow* const rows_;
  Ring<kHeadDim>& ring_;
  char* const queries_;
  const int warp_, lane_;
  Visible sees_[2];
  bool real_[2];
  int first_partial_[2] = {}, partial_stride_[2] = {}, partial_ = 0;
  bool folds_ = false;
  float m_[2], sum_[2];  // of what is folded so far
  Output o_;
};

// A block's runs, for the warps that use the ring. `memory` begins at a multiple of 1024.
template <int kHeadDim>
__device__ __forceinline__ void share_spans(const SpanArgs& args, const SharedRow* rows, const SharedRun* run,
                                            const SharedRun* end, Ring<kHeadDim>& ring, char* memory) {
  SharedTile<kHeadDim> tile(args, rows, ring, memory);
#pragma unroll 1
  for (; run != end; ++run) {
    const SharedRun current = *run;
    tile.do_run(current);
  }
}

}  // namespace mortise::cuda::span
