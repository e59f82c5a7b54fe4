// The prefill kernel: many rows of one sequence; limited by arithmetic. A block takes tiles of 128 rows one after the
// other, 64 rows for each of two warpgroups, which take spans in order out of a ring that one warp of a third warpgroup
// fills. While one of the two computes weights, the tensor cores have the other's products; while they end a tile, the
// ring is filled for the next, and the other warps of the third have brought its rows of q. Neither of the two waits
// for the other.
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
constexpr int kQueryThreads = kGroupThreads - 32;        // that bring q
constexpr int kManyRegisters = 232, kFewRegisters = 40;  // launched with 168 each

template <int kHeadDim>
struct Shape {
  // As many halves of spans, and tiles of q (this one's, and the next one's), as fit in shared memory.
  static constexpr int kPlaces = kHeadDim <= 128 ? 4 : kHeadDim <= 192 ? 3 : 2, kQueryTiles = kHeadDim <= 128 ? 2 : 1;
  using RingShape = span::RingShape<kHeadDim, kPlaces, kUsers>;
  static constexpr int kQueries = RingShape::kBytes;
  static constexpr int kGroupQueryBytes = kWarpgroupRows * kHeadDim * 2;
  static constexpr int kTileQueryBytes = kGroups * kGroupQueryBytes;
  static constexpr int kBarriers = kQueries + kQueryTiles * kTileQueryBytes;
  static constexpr int kQueryBarriers = kBarriers + RingShape::kBarrierBytes;  // q is there (of both), q is read
  static constexpr int kOnes = kQueryBarriers + 2 * kQueryTiles * 8;
  static constexpr int kBytes = kOnes + kOnesBytes;
};
template <int kHeadDim>
using PrefillRing = Ring<kHeadDim, typename Shape<kHeadDim>::RingShape>;

__device__ __forceinline__ int last_position(const SpanRun& run) {
  return run.position + run.num_tokens - 1;
}
__device__ __forceinline__ Chunks chunks_of(const SpanRun& run, int span, int window) {
  return span::chunks_of(span, run.position, last_position(run), window);
}

// A block's n-th run. Runs are sorted by length, and alternate rounds go through the blocks in opposite directions, so
// that a block with a long run in one round has a short run in the next.
__device__ __forceinline__ int run_of(int n) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return n * blocks + (n % 2 == 0 ? block : blocks - 1 - block);
}

// Fills the ring; one warp, lane i requests chunk i. Chunks of K that no row sees are left out, because their scores
// are hidden. A chunk of V that no row sees is replaced by the nearest chunk that is seen: with P = 0 it adds zeros,
// while old contents of the ring could be NaN.
template <int kHeadDim>
__device__ __forceinline__ void feed(const SpanArgs& args, const SpanRun& run, PrefillRing<kHeadDim>& ring) {
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
        (key_of(span) & (args.layout.block_size - 1)) * kHeadDim;
    if (span + 1 < run.span_end) block = block_of(span + 1);  // long before it is needed
    ring.ask(keys, chunks.begin, chunks.end);
    ring.advance();
    ring.ask(keys + args.layout.block_size * kHeadDim, 0, kSpanChunks);
    ring.advance();
  }
}

// Where q of a block's n-th tile lies, and its barriers.
template <int kHeadDim>
struct Queries {
  static constexpr int kTiles = Shape<kHeadDim>::kQueryTiles;
  std::uint32_t memory, is_there, is_read;
  int phase;
  __device__ Queries(std::uint32_t block_memory, int n)
      : memory(block_memory + Shape<kHeadDim>::kQueries + n % kTiles * Shape<kHeadDim>::kTileQueryBytes),
        is_there(block_memory + Shape<kHeadDim>::kQueryBarriers + n % kTiles * 8),
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

// Some warps: rows of q as the cache has its rows. Rows that are not there are zeros.
template <int kHeadDim>
__device__ __forceinline__ void load_queries(const SpanArgs& args, const SpanRun& run, const Queries<kHeadDim>& to,
                                             int thread) {
  constexpr int kUnits = kHeadDim / 8, kAll = kPrefillRows * kUnits, kTogether = 4;  // loads, of which each takes long
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

// 64 rows of the tile, those of one warpgroup.
template <int kHeadDim>
class Rows {
 public:
  __device__ Rows(const SpanArgs& args, const SpanRun& run, PrefillRing<kHeadDim>& ring,
                  const Queries<kHeadDim>& queries, std::uint32_t ones, int warp)
      : args_(args),
        run_(run),
        ring_(ring),
        queries_(queries),
        ones_(ones),
        group_(warp / (kGroupThreads / 32)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(group_ * kWarpgroupRows),
        warp_row_(warp * 16),
        num_rows_(run.num_tokens * run.num_heads) {}

  __device__ __forceinline__ void attend() {
    const std::uint32_t q = queries_.memory + group_ * Shape<kHeadDim>::kGroupQueryBytes;
    wait_barrier(queries_.is_there, queries_.phase);
    const Visible sees[2] = {visible_at(position_of(tile_row(0)), args_.window),
                             visible_at(position_of(tile_row(1)), args_.window)};
    const int first = position_of(first_row_), last = position_of(first_row_ + kWarpgroupRows - 1);
    const int warp_first = position_of(warp_row_), warp_last = position_of(warp_row_ + 15);
    WarpgroupPartial<kHeadDim> folded;
    clear(folded);
#pragma unroll 1
    for (int span = run_.span_begin; span < run_.span_end; ++span) {
      // Spans that none of these rows sees have P = 0: leaving them out changes no bit.
      const Chunks seen = span::chunks_of(span, first, last, args_.window);
      if (first_row_ >= num_rows_ || seen.begin >= seen.end) {
        pass();
        pass();
        continue;
      }
      WarpgroupStats stats;
      Probabilities p;
      const bool masked = !sees_all(span, warp_first, warp_last, args_.window);
      weigh_span<kHeadDim>(ring_, q, span, sees, masked, args_.scale, stats.m, p);
      add_span<kHeadDim>(ring_, ones_, p, stats, SpanFold<kHeadDim>(folded, stats));
    }
    arrive(queries_.is_read);
    write(folded);
  }

 private:
  __device__ __forceinline__ int tile_row(int half) const {
    return warp_row_ + lane_ / 4 + 8 * half;
  }
  // Of the row's token; of rows behind the last that of the last token.
  __device__ __forceinline__ int position_of(int row) const {
    return min(run_.position + row / run_.num_heads, last_position(run_));
  }

  // Takes a half from the ring without looking at it.
  __device__ __forceinline__ void pass() {
    ring_.wait_full();
    ring_.leave();
  }

  __device__ __forceinline__ void write(const WarpgroupPartial<kHeadDim>& from) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile_row(half), token = row / run_.num_heads;
      if (row >= num_rows_) continue;
      Bf16Bits* out = args_.out + (run_.row + token) * args_.out_row_stride +
                      (run_.head + row - token * run_.num_heads) * args_.out_head_stride + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        store_pair(out + 8 * i, from.o[i][2 * half], from.o[i][2 * half + 1], from.sum[half]);
      }
    }
  }

  const SpanArgs& args_;
  const SpanRun& run_;
  PrefillRing<kHeadDim>& ring_;
  const Queries<kHeadDim>& queries_;
  const std::uint32_t ones_;
  const int group_, lane_;
  const int first_row_, warp_row_;  // of the tile: this warpgroup's, this warp's
  const int num_rows_;
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_kernel(const __grid_constant__ SpanArgs args, const SpanRun* runs, int num_runs) {
  extern __shared__ __align__(1024) char memory[];
  const std::uint32_t at = shared_address(memory), barriers = at + Shape<kHeadDim>::kBarriers;
  if (threadIdx.x == 0) {
    PrefillRing<kHeadDim>::make(barriers);
    Queries<kHeadDim>::make_barriers(at);
  }
  make_ones(memory + Shape<kHeadDim>::kOnes);
  __syncthreads();
  PrefillRing<kHeadDim> ring(at, barriers);
  const int warp = __shfl_sync(kWarp, static_cast<int>(threadIdx.x) / 32, 0);  // which the compiler knows to be one
  if (warp >= kUsers / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp == kUsers / 32) see_writes();
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      if (warp == kUsers / 32) {
        feed<kHeadDim>(args, run, ring);
      } else {
        load_queries<kHeadDim>(args, run, Queries<kHeadDim>(at, n), static_cast<int>(threadIdx.x) - kUsers - 32);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      const Queries<kHeadDim> queries(at, n);
      Rows<kHeadDim>(args, run, ring, queries, at + Shape<kHeadDim>::kOnes, warp).attend();
    }
  }
}

template <int kHeadDim>
cudaError_t launch(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                   cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(num_runs, num_blocks));
  prefill_kernel<kHeadDim><<<blocks, kThreads, Shape<kHeadDim>::kBytes, stream>>>(args, runs, num_runs);
  return cudaGetLastError();
}

template <int kHeadDim>
cudaError_t prepare() {
  return cudaFuncSetAttribute(prefill_kernel<kHeadDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape<kHeadDim>::kBytes);
}

}  // namespace

cudaError_t span_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                         cudaStream_t stream) {
  if (num_runs == 0) return cudaSuccess;
  return with_head_dim(args.layout.head_dim, [&](auto head_dim) {
    return launch<decltype(head_dim)::value>(args, runs, num_runs, num_blocks, stream);
  });
}

cudaError_t span_prefill_prepare(std::int32_t head_dim) {
  return with_head_dim(head_dim, [](auto d) { return prepare<decltype(d)::value>(); });
}

}  // namespace mortise::cuda
