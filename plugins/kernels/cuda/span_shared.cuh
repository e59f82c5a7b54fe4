// plugins/kernels/cuda/span_shared.cuh: attention for spans that several sequences share. A tile has 64 rows of any
// sequences of a prefix group, and wgmma computes them together: each key is read once for 64 rows, not once for the
// few rows of each sequence.
#pragma once

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_warpgroup.cuh"

namespace mortise::cuda::span {

static_assert(kSharedRows == kWarpgroupRows);

template <int kHeadDim, SpanCache kCache>
struct SharedShape {
  static constexpr int kQueries = DecodeRing<kHeadDim, kCache>::Shape::kBytes;
  static constexpr int kBytes = kQueries + kSharedRows * kHeadDim * 2;
};

// Requests K and V of a block's runs, span after span. Used by one warp: lane i requests chunk i. The constructor may
// run before the preceding kernels have ended (programmatic dependent launch): it only reads the lists of the first
// run. Invariant: unless done_, block_ is the block of the lane's next chunk.
template <int kHeadDim, SpanCache kCache>
class SharedFeeder {
 public:
  using Chunk = CacheChunk<kHeadDim, kCache>;
  __device__ SharedFeeder(const SpanArgs& args, const SharedRun* run, const SharedRun* end,
                          DecodeSource<kHeadDim, kCache>& ring)
      : args_(args), next_run_(run), end_(end), ring_(ring), lane_(static_cast<int>(threadIdx.x) % 32) {
    enter_run();
  }

  __device__ __forceinline__ void feed_all() {
#pragma unroll 1
    for (; !done_; enter_run()) {
#pragma unroll 1
      for (int span = run_.span_begin; span < run_.span_end; ++span) {
        const Bf16Bits* from =
            args_.kv + block_ * static_cast<std::int64_t>(args_.layout.block_elements) +
            static_cast<std::int64_t>(run_.kv_head) * static_cast<std::int64_t>(args_.layout.head_elements) +
            Chunk::offset(key(span) & (args_.layout.block_size - 1));
        if (span + 1 < run_.span_end) block_ = block_of(span + 1);  // long before it is needed
        for (const Bf16Bits* half : {from, from + Chunk::offset(args_.layout.block_size)}) {
          ring_.request(half, 0, kSpanChunks);
          ring_.advance();
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void enter_run() {
    done_ = next_run_ == end_;
    if (done_) return;
    run_ = *next_run_++;
    block_ = block_of(run_.span_begin);
  }
  __device__ __forceinline__ int key(int span) const {
    return span * kSpan + lane_ % kSpanChunks * kKeyChunk;
  }
  __device__ __forceinline__ std::int64_t block_of(int span) const {
    return args_.block_table[run_.table + (key(span) >> args_.layout.block_shift)];
  }

  const SpanArgs& args_;
  const SharedRun* next_run_;
  const SharedRun* const end_;
  DecodeSource<kHeadDim, kCache>& ring_;
  const int lane_;
  bool done_ = false;
  SharedRun run_;
  std::int64_t block_ = 0;
};

template <int kHeadDim, SpanCache kCache>
// Computes the tiles of shared spans. One per thread of the four computing warps; methods are called by all four warps.
// Invariant: the lists of run_ are in registers from enter() to the end of do_run().
class SharedTile {
 public:
  using Shape = SharedShape<kHeadDim, kCache>;
  __device__ SharedTile(const SpanArgs& args, const SharedRow* rows, DecodeRing<kHeadDim, kCache>& ring, char* memory,
                        std::uint32_t ones)
      : args_(args),
        rows_(rows),
        ring_(ring),
        queries_(memory + Shape::kQueries),
        ones_(ones),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // Reads the lists of the run.
  __device__ __forceinline__ void enter(const SharedRun& run) {
    run_ = run;
    find_queries();
    load_rows();
  }

  __device__ __forceinline__ void do_run() {
    load_queries();
    int partial = run_.partial;
    Partial folded;
    clear(folded);
#pragma unroll 1
    for (int span = run_.span_begin; span < run_.span_end; ++span) {
      const bool masked = __any_sync(kWarp, max(sees_[0].low, sees_[1].low) > span * kSpan);
      WarpgroupStats stats;
      Scores s;
      begin_scores<kHeadDim>(ring_, shared_address(queries_), s);
      end_scores(ring_, s);
      SpanFold<kHeadDim> fold(folded, stats);
      constexpr int kTiles = SpanFold<kHeadDim>::kTiles;
      add_span<kHeadDim>(
          ring_, ones_, span, sees_, masked, args_.scale, s, stats, [] {},
          [&](int pass, const float(&o)[kTiles][4]) {
            if (run_.folds != 0) {
              fold(pass, o);
            } else {
              write(o, pass * kTiles * 8, stats.m, stats.sum, partial);
              if ((pass + 1) * kTiles * 8 == kHeadDim) ++partial;
            }
          });
    }
    if (run_.folds != 0) write(folded.o, 0, folded.m, folded.sum, partial);
  }

 private:
  using Partial = WarpgroupPartial<kHeadDim>;
  static constexpr int kUnits = kHeadDim / 8, kThreads = kDecodeWarps * 32, kEach = kSharedRows * kUnits / kThreads;
  static_assert(kSharedRows * kUnits % kThreads == 0);

  // Returns the row of q of the thread's i-th unit.
  __device__ static int row_of(int i) {
    return (i * kThreads + static_cast<int>(threadIdx.x)) / kUnits;
  }
  __device__ static int unit_of(int i) {
    const int at = static_cast<int>(threadIdx.x) + (kThreads % kUnits == 0 ? 0 : i * kThreads);
    return at % kUnits;
  }

  __device__ __forceinline__ void find_queries() {
    const int group_head = run_.kv_head * args_.heads_per_kv_head;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const SharedRow& from = rows_[run_.first_row + min(row_of(i), run_.num_rows - 1)];
      queries_at_[i] = from.row * args_.q_row_stride + (group_head + from.head) * args_.q_head_stride + unit_of(i) * 8;
    }
  }

  // Loads rows of q in the cache's order of rows. Called by all threads. Missing rows become zeros.
  __device__ __forceinline__ void load_queries() {
    uint4 values[kEach];  // all loads overlap, because each has a long latency
#pragma unroll
    for (int i = 0; i < kEach; ++i) values[i] = *reinterpret_cast<const uint4*>(args_.q + queries_at_[i]);
    sync_users();  // all threads are done with the rows of the previous run
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (row_of(i) >= run_.num_rows) values[i] = uint4{0, 0, 0, 0};
      *reinterpret_cast<uint4*>(queries_ + span_offset(kHeadDim, row_of(i), unit_of(i) * 8) * 2) = values[i];
    }
    publish_writes();
    sync_users();
  }

  // Loads the data that a lane needs of its two rows.
  __device__ __forceinline__ void load_rows() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_ * 16 + lane_ / 4 + 8 * half;
      real_[half] = row < run_.num_rows;
      sees_[half] = {0, 0x7fffffff};
      if (!real_[half]) continue;
      const SharedRow& from = rows_[run_.first_row + row];
      sees_[half] = visible_at(from.position, args_.window);
      first_partial_[half] = from.partial + run_.kv_head * from.kv_head_stride;
      partial_stride_[half] = from.partial_stride;
    }
  }

  // Writes columns from first_column on, and with the first columns the exponents and sums, to the partials of the
  // rows.
  template <int kTiles>
  __device__ __forceinline__ void write(const float (&o)[kTiles][4], int first_column, const float (&m)[2],
                                        const float (&sum)[2], int partial) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!real_[half]) continue;
      const std::int64_t row = first_partial_[half] + partial * partial_stride_[half];
      float* to = args_.partials + row * kHeadDim + first_column + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      if (first_column == 0 && lane_ % 4 == 0) args_.partial_stats[row] = {m[half], sum[half]};
    }
  }

  const SpanArgs& args_;
  const SharedRow* const rows_;
  DecodeRing<kHeadDim, kCache>& ring_;
  char* const queries_;
  const std::uint32_t ones_;
  const int warp_, lane_;
  SharedRun run_;
  std::int64_t queries_at_[kEach];
  Visible sees_[2];
  bool real_[2];
  int first_partial_[2] = {}, partial_stride_[2] = {};
};

}  // namespace mortise::cuda::span
