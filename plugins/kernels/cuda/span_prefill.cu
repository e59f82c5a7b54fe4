// The prefill kernel, for many rows of one sequence; limited by arithmetic. A thread block computes tiles of 128 rows,
// one after the other. Two warpgroups have 64 rows each. They take spans in order from a ring that one warp of a third
// warpgroup fills. While one warpgroup computes weights, the tensor cores compute products of the other: with heads of
// up to 128 the two take turns. While they end a tile, the ring is filled for the next tile, and the other warps of the
// third warpgroup have already loaded its rows of q.
#include <algorithm>

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_head_dim.hpp"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_warpgroup.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kGroups = kPrefillRows / kWarpgroupRows, kGroupThreads = 128;
constexpr int kUsers = kGroups * kGroupThreads, kThreads = kUsers + kGroupThreads;
constexpr int kQueryThreads = kGroupThreads - 32;  // threads that load q
// A thread is launched with 168 registers. Threads that convert a cache in bytes need more than those that only load q.
template <SpanCache kCache>
constexpr int kManyRegisters = in_bytes(kCache) ? 232 : 240;
template <SpanCache kCache>
constexpr int kFewRegisters = in_bytes(kCache) ? 40 : 24;

template <int kHeadDim, SpanCache kCache>
struct Shape {
  // As many halves of spans, and tiles of q (the current and the next), as fit in shared memory.
  static constexpr int kPlaces = kHeadDim <= 128 ? 4 : kHeadDim <= 192 ? 3 : 2, kQueryTiles = kHeadDim <= 128 ? 2 : 1;
  static constexpr bool kStages = in_bytes(kCache);
  using Stage = StageShape<kHeadDim, kHeadDim <= 128 ? 3 : 2>;  // of a cache in bytes
  using RingShape = span::RingShape<kHeadDim, kPlaces, kUsers, kStages ? kConverters : 1>;
  static constexpr int kQueries = RingShape::kBytes;
  static constexpr int kGroupQueryBytes = kWarpgroupRows * kHeadDim * 2;
  static constexpr int kTileQueryBytes = kGroups * kGroupQueryBytes;
  static constexpr int kStage = kQueries + kQueryTiles * kTileQueryBytes;
  static constexpr int kBarriers = kStage + (kStages ? Stage::kBytes : 0);
  // for each tile of q: "full" for both warpgroups, and "free"
  static constexpr int kQueryBarriers = kBarriers + RingShape::kBarrierBytes;
  static constexpr int kStageBarriers = kQueryBarriers + 2 * kQueryTiles * 8;
  static constexpr int kTurns = kStageBarriers + (kStages ? Stage::kBarrierBytes : 0);
  static constexpr int kOnes = (kTurns + kGroups * 8 + 15) / 16 * 16;
  static constexpr int kBytes = kOnes + kOnesBytes;
};
template <int kHeadDim, SpanCache kCache>
using PrefillRing = Ring<kHeadDim, typename Shape<kHeadDim, kCache>::RingShape>;
template <int kHeadDim, SpanCache kCache>
using PrefillSource = std::conditional_t<in_bytes(kCache), Stage<kHeadDim, typename Shape<kHeadDim, kCache>::Stage>,
                                         PrefillRing<kHeadDim, kCache>>;

__device__ __forceinline__ int last_position(const SpanRun& run) {
  return run.position + run.num_tokens - 1;
}
__device__ __forceinline__ Chunks chunks_of(const SpanRun& run, int span, int window) {
  return span::chunks_of(span, run.position, last_position(run), window);
}

// Returns a block's n-th run. Runs are sorted by length, and alternate rounds go through the blocks in opposite
// directions, so that a block with a long run in one round has a short run in the next.
__device__ __forceinline__ int run_of(int n) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return n * blocks + (n % 2 == 0 ? block : blocks - 1 - block);
}

// Fills the ring. Called by one warp; lane i requests chunk i. Chunks of K that no row sees are left out, because their
// scores are hidden. A chunk of V that no row sees is replaced by the nearest chunk that is seen: with P = 0 it adds
// zeros, while old contents of the ring could be NaN.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void feed(const SpanArgs& args, const SpanRun& run, PrefillSource<kHeadDim, kCache>& ring) {
  using Chunk = CacheChunk<kHeadDim, kCache>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto key_of = [&](int span) {
    const Chunks chunks = chunks_of(run, span, args.window);
    return span * kSpan + min(max(lane, chunks.begin), chunks.end - 1) * kKeyChunk;
  };
  const auto block_of = [&](int span) -> std::int64_t {
    return args.block_table[run.table + (key_of(span) >> args.layout.block_shift)];
  };
  std::int64_t block = block_of(run.span_begin);
#pragma unroll 1
  for (int span = run.span_begin; span < run.span_end; ++span) {
    const Chunks chunks = chunks_of(run, span, args.window);
    const Bf16Bits* const keys =
        args.kv + block * static_cast<std::int64_t>(args.layout.block_elements) +
        static_cast<std::int64_t>(run.kv_head) * static_cast<std::int64_t>(args.layout.head_elements) +
        Chunk::offset(key_of(span) & (args.layout.block_size - 1));
    if (span + 1 < run.span_end) block = block_of(span + 1);  // long before it is needed
    ring.request(keys, chunks.begin, chunks.end);
    ring.advance();
    ring.request(keys + Chunk::offset(args.layout.block_size), 0, kSpanChunks);
    ring.advance();
  }
}

// The place of q of a block's n-th tile in shared memory, and its barriers.
template <int kHeadDim, SpanCache kCache>
struct Queries {
  static constexpr int kTiles = Shape<kHeadDim, kCache>::kQueryTiles;
  std::uint32_t memory, is_there, is_read;
  int phase;
  __device__ Queries(std::uint32_t block_memory, int n)
      : memory(block_memory + Shape<kHeadDim, kCache>::kQueries +
               n % kTiles * Shape<kHeadDim, kCache>::kTileQueryBytes),
        is_there(block_memory + Shape<kHeadDim, kCache>::kQueryBarriers + n % kTiles * 8),
        is_read(is_there + kTiles * 8),
        phase(n / kTiles % 2) {}

  static __device__ void make_barriers(std::uint32_t block_memory) {
    for (int n = 0; n < kTiles; ++n) {
      const Queries queries(block_memory, n);
      make_barrier(queries.is_there, kQueryThreads);
      make_barrier(queries.is_read, kUsers);
    }
    publish_barriers();
  }
};

// Loads rows of q in the cache's order of rows. Called by several warps. Missing rows become zeros.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void load_queries(const SpanArgs& args, const SpanRun& run,
                                             const Queries<kHeadDim, kCache>& to, int thread) {
  // kTogether loads overlap, because each has a long latency
  constexpr int kUnits = kHeadDim / 8, kAll = kPrefillRows * kUnits, kTogether = 2;
  const int num_rows = run.num_tokens * run.num_heads;
  wait_barrier(to.is_read, to.phase ^ 1);
#pragma unroll 1
  for (int first = thread; first < kAll; first += kTogether * kQueryThreads) {
    uint4 values[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * kQueryThreads, row = at / kUnits, token = row / run.num_heads;
      const Bf16Bits* const from = args.q + (run.row + token) * args.q_row_stride +
                                   (run.head + row - token * run.num_heads) * args.q_head_stride + at % kUnits * 8;
      values[i] = row < num_rows ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * kQueryThreads;
      if (at < kAll) put_unit_at(to.memory + span_offset(kHeadDim, at / kUnits, at % kUnits * 8) * 2, values[i]);
    }
  }
  publish_writes();
  arrive(to.is_there);
}

// Requests K and V of all runs of the block. Called by one warp.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void bring(const SpanArgs& args, const SpanRun* runs, int num_runs, std::uint32_t memory,
                                      PrefillRing<kHeadDim, kCache>& ring) {
  using ItsShape = Shape<kHeadDim, kCache>;
  const auto feed_all = [&](PrefillSource<kHeadDim, kCache>& source) {
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      feed<kHeadDim, kCache>(args, run, source);
    }
  };
  if constexpr (ItsShape::kStages) {
    PrefillSource<kHeadDim, kCache> stage(memory + ItsShape::kStage, memory + ItsShape::kStageBarriers);
    feed_all(stage);
  } else {
    feed_all(ring);
  }
}

// Loads q of all runs and, for an int8 cache, converts K and V to bf16. Called by the other warps of that warpgroup.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void prepare_tiles(const SpanArgs& args, const SpanRun* runs, int num_runs,
                                              std::uint32_t memory, PrefillRing<kHeadDim, kCache>& ring) {
  using ItsShape = Shape<kHeadDim, kCache>;
  const int thread = static_cast<int>(threadIdx.x) - kUsers - 32;
  const auto load = [&](const SpanRun& run, int n) {
    load_queries<kHeadDim, kCache>(args, run, Queries<kHeadDim, kCache>(memory, n), thread);
  };
  if constexpr (ItsShape::kStages) {
    static_assert(kQueryThreads == kConverters);
    Converter<kHeadDim, kCache, typename ItsShape::Stage, PrefillRing<kHeadDim, kCache>> converter(
        memory + ItsShape::kStage, memory + ItsShape::kStageBarriers, ring, thread);
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      load(run, n);
#pragma unroll 1
      for (int half = 2 * run.span_begin; half < 2 * run.span_end; ++half) converter.convert_half();
    }
  } else {
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) load(runs[run_of(n)], n);
  }
}

// The warpgroups use the tensor cores in turns, so that one multiplies while the other computes weights. Each takes as
// many turns as the other, the first one the first. One per thread.
class Turns {
 public:
  __device__ Turns(std::uint32_t barriers, int group)
      : mine_(barriers + 8 * group), other_(barriers + 8 * (1 - group)), phase_(1 - group) {}
  static __device__ void make(std::uint32_t barriers) {
    for (int group = 0; group < kGroups; ++group) make_barrier(barriers + 8 * group, kGroupThreads);
    publish_barriers();
  }
  __device__ __forceinline__ void wait() {
    wait_barrier(other_, phase_);
    phase_ ^= 1;
  }
  __device__ __forceinline__ void give() { arrive(mine_); }

 private:
  const std::uint32_t mine_, other_;
  int phase_;
};
static_assert(kGroups == 2);

// Computes 64 rows of the tile. One per thread of a warpgroup; methods are called by the whole warpgroup. Invariant:
// each half of the run is taken from the ring once, and both warpgroups take as many turns.
template <int kHeadDim, SpanCache kCache>
class Rows {
 public:
  __device__ Rows(const SpanArgs& args, const SpanRun& run, PrefillRing<kHeadDim, kCache>& ring,
                  const Queries<kHeadDim, kCache>& queries, Turns& turns, std::uint32_t ones, int warp)
      : args_(args),
        run_(run),
        ring_(ring),
        turns_(turns),
        queries_(queries),
        ones_(ones),
        group_(warp / (kGroupThreads / 32)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(group_ * kWarpgroupRows),
        warp_row_(warp * 16),
        num_rows_(run.num_tokens * run.num_heads) {}

  __device__ __forceinline__ void attend() {
    const std::uint32_t q = queries_.memory + group_ * Shape<kHeadDim, kCache>::kGroupQueryBytes;
    wait_barrier(queries_.is_there, queries_.phase);
    const Visible sees[2] = {visible_at(position_of(tile_row(0)), args_.window),
                             visible_at(position_of(tile_row(1)), args_.window)};
    const int first = position_of(first_row_), last = position_of(first_row_ + kWarpgroupRows - 1);
    const int warp_first = position_of(warp_row_), warp_last = position_of(warp_row_ + 15);
    // The other spans of the run have P = 0 for all of these rows, so leaving them out changes no bit.
    const bool any = first_row_ < num_rows_;
    const int begin = any ? max(run_.span_begin, visible_at(first, args_.window).low / kSpan) : run_.span_end;
    const int end = any ? min(run_.span_end, last / kSpan + 1) : run_.span_end;
    WarpgroupPartial<kHeadDim> folded;
    clear(folded);
    pass(begin - run_.span_begin);
    if constexpr (kAhead) {
      attend_ahead(q, begin, end, sees, warp_first, warp_last, folded);
    } else {
      attend_in_order(q, begin, end, sees, warp_first, warp_last, folded);
    }
    pass(run_.span_end - end);
    arrive(queries_.is_read);
    write(folded);
  }

 private:
  __device__ __forceinline__ int tile_row(int half) const { return warp_row_ + lane_ / 4 + 8 * half; }
  // Returns the position of the row's token. Rows past the last get the position of the last token.
  __device__ __forceinline__ int position_of(int row) const {
    return min(run_.position + row / run_.num_heads, last_position(run_));
  }

  // Whether registers have room for the next scores beside the span's O and the folded one.
  static constexpr bool kAhead = kHeadDim <= 128;
  static_assert(!kAhead || (kPassColumns<kHeadDim> == kHeadDim && Shape<kHeadDim, kCache>::kPlaces >= 4));
  using Fold = SpanFold<kHeadDim>;

  __device__ __forceinline__ void attend_ahead(std::uint32_t q, int begin, int end, const Visible (&sees)[2],
                                               int warp_first, int warp_last, WarpgroupPartial<kHeadDim>& folded) {
    turns_.wait();
    if (begin == end) {
      turns_.give();
      return;
    }
    Scores s;
    begin_scores<kHeadDim>(ring_, q, s);
    turns_.give();
    end_scores(ring_, s);
#pragma unroll 1
    for (int span = begin; span < end; ++span) {
      WarpgroupStats stats;
      Fold fold(folded, stats);
      const bool masked = !sees_all(span, warp_first, warp_last, args_.window);
      const auto wait = [&] { turns_.wait(); };
      const auto use = [&](int, const float(&o)[Fold::kTiles][4]) {
        if (span + 1 == end) {
          turns_.give();
          fold(0, o);
        } else {
          begin_scores<kHeadDim>(ring_, q, s);
          turns_.give();
          fold(0, o);
          hold(folded.o);  // while the tensor cores compute the scores
          end_scores(ring_, s);
        }
      };
      add_span<kHeadDim>(ring_, ones_, span, sees, masked, args_.scale, s, stats, wait, use);
    }
  }

  __device__ __forceinline__ void attend_in_order(std::uint32_t q, int begin, int end, const Visible (&sees)[2],
                                                  int warp_first, int warp_last, WarpgroupPartial<kHeadDim>& folded) {
#pragma unroll 1
    for (int span = begin; span < end; ++span) {
      Scores s;
      begin_scores<kHeadDim>(ring_, q, s);
      end_scores(ring_, s);
      WarpgroupStats stats;
      Fold fold(folded, stats);
      const bool masked = !sees_all(span, warp_first, warp_last, args_.window);
      add_span<kHeadDim>(
          ring_, ones_, span, sees, masked, args_.scale, s, stats, [] {}, fold);
    }
  }

  // Takes K and V of some spans from the ring without using them, and a turn for each if there are turns.
  __device__ __forceinline__ void pass(int spans) {
#pragma unroll 1
    for (int i = 0; i < spans; ++i) {
      for (int half = 0; half < 2; ++half) {
        ring_.wait_full();
        ring_.leave();
      }
      if constexpr (!kAhead) continue;
      turns_.wait();
      turns_.give();
    }
  }

  __device__ __forceinline__ void write(const WarpgroupPartial<kHeadDim>& from) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile_row(half), token = row / run_.num_heads;
      if (row >= num_rows_) continue;
      const float inverse_of_sum = inverse(from.sum[half]);
      Bf16Bits* out = args_.out + (run_.row + token) * args_.out_row_stride +
                      (run_.head + row - token * run_.num_heads) * args_.out_head_stride + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        store_pair(out + 8 * i, from.o[i][2 * half], from.o[i][2 * half + 1], inverse_of_sum);
      }
    }
  }

  const SpanArgs& args_;
  const SpanRun& run_;
  PrefillRing<kHeadDim, kCache>& ring_;
  Turns& turns_;
  const Queries<kHeadDim, kCache>& queries_;
  const std::uint32_t ones_;
  const int group_, lane_;
  const int first_row_, warp_row_;  // in the tile: the first row of this warpgroup, and of this warp
  const int num_rows_;
};

template <int kHeadDim, SpanCache kCache>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_kernel(const __grid_constant__ SpanArgs args, const SpanRun* runs, int num_runs) {
  extern __shared__ __align__(1024) char memory[];
  const std::uint32_t at = shared_address(memory), barriers = at + Shape<kHeadDim, kCache>::kBarriers;
  if (threadIdx.x == 0) {
    if constexpr (Shape<kHeadDim, kCache>::kStages) {
      StagePlaces<typename Shape<kHeadDim, kCache>::Stage>::make(at + Shape<kHeadDim, kCache>::kStageBarriers);
    }
    PrefillRing<kHeadDim, kCache>::make(barriers);
    Queries<kHeadDim, kCache>::make_barriers(at);
    Turns::make(at + Shape<kHeadDim, kCache>::kTurns);
  }
  make_ones(memory + Shape<kHeadDim, kCache>::kOnes);
  __syncthreads();
  PrefillRing<kHeadDim, kCache> ring(at, barriers);
  // tells the compiler that all lanes have the same value
  const int warp = __shfl_sync(kWarp, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= kUsers / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters<kCache>));
    if (warp == kUsers / 32) {
      see_writes();
      bring<kHeadDim, kCache>(args, runs, num_runs, at, ring);
    } else {
      prepare_tiles<kHeadDim, kCache>(args, runs, num_runs, at, ring);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters<kCache>));
    Turns turns(at + Shape<kHeadDim, kCache>::kTurns, warp / (kGroupThreads / 32));
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      const Queries<kHeadDim, kCache> queries(at, n);
      Rows<kHeadDim, kCache>(args, run, ring, queries, turns, at + Shape<kHeadDim, kCache>::kOnes, warp).attend();
    }
  }
}

template <int kHeadDim, SpanCache kCache>
cudaError_t launch(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                   cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(num_runs, num_blocks));
  prefill_kernel<kHeadDim, kCache><<<blocks, kThreads, Shape<kHeadDim, kCache>::kBytes, stream>>>(args, runs, num_runs);
  return cudaGetLastError();
}

template <int kHeadDim, SpanCache kCache>
cudaError_t prepare() {
  return cudaFuncSetAttribute(prefill_kernel<kHeadDim, kCache>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape<kHeadDim, kCache>::kBytes);
}

}  // namespace

cudaError_t span_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                         cudaStream_t stream) {
  if (num_runs == 0) return cudaSuccess;
  return with_head_dim(args.layout.head_dim, args.layout.cache, [&](auto head_dim, auto cache) {
    return launch<decltype(head_dim)::value, decltype(cache)::value>(args, runs, num_runs, num_blocks, stream);
  });
}

cudaError_t span_prefill_prepare(std::int32_t head_dim, SpanCache cache) {
  return with_head_dim(head_dim, cache,
                       [](auto d, auto c) { return prepare<decltype(d)::value, decltype(c)::value>(); });
}

}  // namespace mortise::cuda
