// span_shared.cuh: spans that several sequences share, in blocks of their own of the decode kernel. A tile has 64 rows
// of any sequences of a group, and wgmma has them all at once: each key is read once for 64 rows, not for the few of
// one sequence. The other blocks read what is a sequence's own meanwhile, and wait for memory most of the time.
#pragma once

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_launch.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_wgmma.cuh"

namespace mortise::cuda::span {

static_assert(kSpan == 128 && kSharedRows == 64, "the products are for 128 keys of 64 rows");

template <int kHeadDim>
struct SharedShape {
  static constexpr int kHalves = 3;                        // on their way or in use: K, V, K, ..
  static constexpr int kHalfBytes = kSpan * kHeadDim * 2;  // K or V of a span
  static constexpr int kQueryBytes = kSharedRows * kHeadDim * 2;
  static constexpr int kBarriers = kQueryBytes + kHalves * kHalfBytes;  // where they lie
  static constexpr int kBlockBytes = kBarriers + 8 * (kHalves + 1);
  static constexpr int kColumnsStride = 1024, kRowsStride = kHeadDim / 64 * 1024;  // of the cache and of q
};

// Brings K and V of a block's runs, span after span, into three places in turn; each warp some chunks of a span, which
// one of its lanes asks for.
template <int kHeadDim>
class SharedFeeder {
 public:
  using Shape = SharedShape<kHeadDim>;
  __device__ SharedFeeder(const SpanArgs& args, const SharedRun* run, const SharedRun* end, std::uint32_t memory)
      : args_(args),
        next_run_(run),
        end_(end),
        memory_(memory),
        warp_(static_cast<int>(threadIdx.x) / 32),
        first_lane_(threadIdx.x % 32 == 0) {
    enter_run();
  }

  // Starts the copies of one more half, if there is one, to the place that was used longest ago.
  __device__ __forceinline__ void feed() {
    if (done_) return;
    if (first_lane_) copy_half();
    if (++slot_ == Shape::kHalves) slot_ = 0;
    values_ = !values_;
    if (values_) return;
    if (++span_ == run_.span_end) {
      enter_run();
    } else {
      load_blocks();
    }
  }

 private:
  static constexpr int kChunks = kSpanChunks / 4;  // of a warp

  __device__ __forceinline__ void copy_half() {
    const std::uint32_t barrier = memory_ + Shape::kBarriers + 8 * slot_;
    // Whichever comes first: the barrier cannot pass before this one has.
    if (warp_ == 0) expect_bytes(barrier, Shape::kHalfBytes);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int chunk = warp_ * kChunks + i, key = span_ * kSpan + chunk * kKeyChunk;
      const Bf16Bits* from =
          args_.kv + blocks_[i] * static_cast<std::int64_t>(args_.layout.block_elements) +
          static_cast<std::int64_t>(run_.kv_head) * static_cast<std::int64_t>(args_.layout.head_elements) +
          (values_ ? args_.layout.block_size * kHeadDim : 0) + (key & (args_.layout.block_size - 1)) * kHeadDim;
      copy_bulk(memory_ + Shape::kQueryBytes + slot_ * Shape::kHalfBytes + chunk * Piece<kHeadDim>::kBytes, from,
                Piece<kHeadDim>::kBytes, barrier);
    }
  }

  __device__ __forceinline__ void enter_run() {
    done_ = next_run_ == end_;
    if (done_) return;
    run_ = *next_run_++;
    span_ = run_.span_begin;
    load_blocks();
  }
  // Those of the warp's chunks of the span: used when its K is fed.
  __device__ __forceinline__ void load_blocks() {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int key = span_ * kSpan + (warp_ * kChunks + i) * kKeyChunk;
      blocks_[i] = args_.block_table[run_.table + (key >> args_.layout.block_shift)];
    }
  }

  const SpanArgs& args_;
  const SharedRun* next_run_;
  const SharedRun* const end_;
  const std::uint32_t memory_;
  const int warp_;
  const bool first_lane_;
  SharedRun run_;
  bool done_ = false, values_ = false;
  int span_ = 0, slot_ = 0;
  std::int64_t blocks_[kChunks] = {};
};

template <int kHeadDim>
class SharedTile {
 public:
  using Shape = SharedShape<kHeadDim>;
  using Output = float[kHeadDim / 8][4];
  __device__ SharedTile(const SpanArgs& args, const SharedRow* rows, SharedFeeder<kHeadDim>& feeder, char* memory)
      : args_(args),
        rows_(rows),
        feeder_(feeder),
        queries_(memory),
        memory_(shared_address(memory)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void do_run(const SharedRun& run) {
    load_queries(run);
    load_rows(run);
    int partial = run.partial;
    float o[kHeadDim / 8][4], m[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;
#pragma unroll 1
    for (int span = run.span_begin; span < run.span_end; ++span) {
      float o2[kHeadDim / 8][4], m2[2], sum2[2];
      do_span(span, o2, m2, sum2);
      if (run.folds != 0) {
        fold(o, m, sum, o2, m2, sum2);
      } else {
        write(partial++, o2, m2, sum2);
      }
    }
    if (run.folds != 0) write(partial, o, m, sum);
  }

 private:
  // All threads: rows of q as the cache has its rows. Rows that are not there are zeros.
  __device__ void load_queries(const SharedRun& run) {
    constexpr int kUnits = kHeadDim / 8;
    const int group_head = run.kv_head * args_.heads_per_kv_head;
#pragma unroll
    for (int i = 0; i < kSharedRows * kUnits / 128; ++i) {
      const int row = (i * 128 + static_cast<int>(threadIdx.x)) / kUnits, unit = static_cast<int>(threadIdx.x) % kUnits;
      uint4 value{0, 0, 0, 0};
      if (row < run.num_rows) {
        const SharedRow& from = rows_[run.first_row + row];
        value = *reinterpret_cast<const uint4*>(args_.q + from.row * args_.q_row_stride +
                                                (group_head + from.head) * args_.q_head_stride + unit * 8);
      }
      *reinterpret_cast<uint4*>(queries_ + span_offset(kHeadDim, row, unit * 8) * 2) = value;
    }
    publish_writes();
    __syncthreads();
  }

  // What a lane needs of its two rows.
  __device__ void load_rows(const SharedRun& run) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_ * 16 + lane_ / 4 + 8 * half;
      real_[half] = row < run.num_rows;
      sees_[half] = {0, 0x7fffffff};
      if (!real_[half]) continue;
      const SharedRow& from = rows_[run.first_row + row];
      sees_[half] = visible_at(from.position, args_.window);
      partial_[half] = from.partial + run.kv_head * from.kv_head_stride;
      partial_stride_[half] = from.partial_stride;
    }
  }

  // The next half is there; where it lies.
  __device__ __forceinline__ std::uint32_t next_half() {
    wait_barrier(memory_ + Shape::kBarriers + 8 * slot_, phase_);
    return memory_ + Shape::kQueryBytes + slot_ * Shape::kHalfBytes;
  }
  // All warps are through with it: the next but two takes its place.
  __device__ __forceinline__ void leave_half() {
    __syncthreads();
    feeder_.feed();
    if (++slot_ == Shape::kHalves) slot_ = 0, phase_ ^= 1;
  }

  __device__ __forceinline__ void do_span(int span, Output& o, float (&m)[2], float (&sum)[2]) {
    Probabilities p;
    weigh(span, m, p);
    const std::uint32_t values = next_half();
    begin_products();
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      product(o, p[c], matrix(values + c * Piece<kHeadDim>::kBytes, Shape::kColumnsStride, Shape::kRowsStride), c != 0);
    }
    commit_products();
    float sums[4] = {};
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) mma(sums, p[c], kOnes, kOnes);
    wait_products();
    hold(o);
    leave_half();
    sum[0] = checked_sum(sums[0], m[0]);
    sum[1] = checked_sum(sums[2], m[1]);
  }

  __device__ __forceinline__ void weigh(int span, float (&m)[2], Probabilities& p) {
    Scores s;
    const std::uint32_t keys = next_half();
    begin_products();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const std::uint32_t at = static_cast<std::uint32_t>(step / 4 * 1024 + step % 4 * 32);
      product(s, matrix(memory_ + at, 16, Shape::kRowsStride), matrix(keys + at, 16, Shape::kRowsStride), step != 0);
    }
    commit_products();
    wait_products();
    hold(s);
    leave_half();
    const bool masked = __any_sync(kWarp, max(sees_[0].low, sees_[1].low) > span * kSpan);
    const int first_key = span * kSpan + 2 * (lane_ % 4);
    m[0] = softmax<0>(s, sees_[0], first_key, args_.scale, masked, p);
    m[1] = softmax<1>(s, sees_[1], first_key, args_.scale, masked, p);
  }

  __device__ __forceinline__ void fold(Output& o, float (&m)[2], float (&sum)[2], const Output& o2,
                                       const float (&m2)[2], const float (&sum2)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Weights w = merge_weights(m[half], m2[half]);
      sum[half] = merged(sum[half], sum2[half], w);
      m[half] = w.m;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        o[i][2 * half] = merged(o[i][2 * half], o2[i][2 * half], w);
        o[i][2 * half + 1] = merged(o[i][2 * half + 1], o2[i][2 * half + 1], w);
      }
    }
  }

  __device__ __forceinline__ void write(int partial, const Output& o, const float (&m)[2],
                                        const float (&sum)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!real_[half]) continue;
      const std::int64_t row = partial_[half] + partial * partial_stride_[half];
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
  SharedFeeder<kHeadDim>& feeder_;
  char* const queries_;
  const std::uint32_t memory_;
  const int warp_, lane_;
  int slot_ = 0, phase_ = 0;
  Visible sees_[2];
  bool real_[2];
  int partial_[2], partial_stride_[2];
};

// A block's runs. `memory` begins at a multiple of 1024.
template <int kHeadDim>
__device__ void share_spans(const SpanArgs& args, const SharedWork& work, char* memory) {
  using Shape = SharedShape<kHeadDim>;
  const SharedRun* run = work.runs + work.block_begin[blockIdx.x];
  const SharedRun* const end = work.runs + work.block_begin[blockIdx.x + 1];
  if (run == end) return;  // other blocks of this kernel wait for the one before
  const std::uint32_t at = shared_address(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kHalves; ++i) make_barrier(at + Shape::kBarriers + 8 * i);
    publish_barriers();
  }
  SharedFeeder<kHeadDim> feeder(args, run, end, at);
  __syncthreads();
  wait_for_kernel_before();
#pragma unroll 1
  for (int i = 0; i < Shape::kHalves; ++i) feeder.feed();
  SharedTile<kHeadDim> tile(args, work.rows, feeder, memory);
#pragma unroll 1
  for (; run != end; ++run) tile.do_run(*run);
}

}  // namespace mortise::cuda::span
