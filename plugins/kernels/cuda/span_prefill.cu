// The prefill kernel: many rows of one sequence; limited by arithmetic. A block takes tiles of 128 rows one after the
// other, 64 rows for each of two warpgroups, which take spans in order out of a ring that one warp of a third warpgroup
// fills. While one of the two computes weights, the tensor cores have the other's products; while they end a tile, the
// ring is filled for the next.
#include <algorithm>

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_warpgroup.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kGroups = kPrefillRows / kWarpgroupRows, kGroupThreads = 128;
constexpr int kUsers = kGroups * kGroupThreads, kThreads = kUsers + kGroupThreads;
constexpr int kManyRegisters = 232, kFewRegisters = 40;  // launched with 168 each

template <int kHeadDim>
struct Shape {
  using RingShape = span::RingShape<kHeadDim, 4, kUsers>;
  static constexpr int kQueries = RingShape::kBytes;
  static constexpr int kGroupQueryBytes = kWarpgroupRows * kHeadDim * 2;
  static constexpr int kBarriers = kQueries + kGroups * kGroupQueryBytes;
  static constexpr int kOnes = kBarriers + RingShape::kBarrierBytes;
  static constexpr int kBytes = kOnes + kOnesBytes;
};
template <int kHeadDim>
using PrefillRing = Ring<kHeadDim, typename Shape<kHeadDim>::RingShape>;

// Barriers of the threads that use the ring: of one warpgroup, and of all.
__device__ __forceinline__ void sync_group(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}
__device__ __forceinline__ void sync_groups() {
  asm volatile("bar.sync 4, %0;" ::"n"(kUsers) : "memory");
}

__device__ __forceinline__ int last_position(const SpanRun& run) {
  return run.position + run.num_tokens - 1;
}
__device__ __forceinline__ Chunks chunks_of(const SpanRun& run, int span, int window) {
  return span::chunks_of(span, run.position, last_position(run), window);
}

// A block's n-th run. They are given longest first: who had a long one in this round has a short one in the next.
__device__ __forceinline__ int run_of(int n) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return n * blocks + (n % 2 == 0 ? block : blocks - 1 - block);
}

// One warp; lane i asks for chunk i.
template <int kHeadDim>
__device__ __forceinline__ void feed(const SpanArgs& args, const SpanRun& run, PrefillRing<kHeadDim>& ring) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto block_of = [&](int span) -> std::int64_t {
    const Chunks chunks = chunks_of(run, span, args.window);
    if (lane < chunks.begin || lane >= chunks.end) return 0;
    return args.block_table[run.table + ((span * kSpan + lane * kKeyChunk) >> args.layout.block_shift)];
  };
  std::int64_t block = block_of(run.span_begin);
#pragma unroll 1
  for (int span = run.span_begin; span < run.span_end; ++span) {
    const Chunks chunks = chunks_of(run, span, args.window);
    const Bf16Bits* const keys =
        args.kv + block * static_cast<std::int64_t>(args.layout.block_elements) +
        static_cast<std::int64_t>(run.kv_head) * static_cast<std::int64_t>(args.layout.head_elements) +
        ((span * kSpan + lane * kKeyChunk) & (args.layout.block_size - 1)) * kHeadDim;
    if (span + 1 < run.span_end) block = block_of(span + 1);  // long before it is needed
    for (const Bf16Bits* from : {keys, keys + args.layout.block_size * kHeadDim}) {
      ring.ask(from, chunks.begin, chunks.end);
      ring.advance();
    }
  }
}

// 64 rows of the tile, those of one warpgroup.
template <int kHeadDim>
class Rows {
 public:
  __device__ Rows(const SpanArgs& args, const SpanRun& run, PrefillRing<kHeadDim>& ring, char* memory, int warp)
      : args_(args),
        run_(run),
        ring_(ring),
        group_(warp / (kGroupThreads / 32)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_row_(group_ * kWarpgroupRows),
        warp_row_(warp * 16),
        num_rows_(run.num_tokens * run.num_heads),
        queries_(memory + Shape<kHeadDim>::kQueries + group_ * Shape<kHeadDim>::kGroupQueryBytes),
        ones_(shared_address(memory + Shape<kHeadDim>::kOnes)) {}

  __device__ __forceinline__ void attend() {
    load_queries();
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
      const bool working = first_row_ < num_rows_ && seen.begin < seen.end;
      WarpgroupPartial<kHeadDim> next;
      Probabilities p;
      if (working) {
        const bool masked = !sees_all(span, warp_first, warp_last, args_.window);
        weigh_span<kHeadDim>(ring_, shared_address(queries_), span, sees, masked, args_.scale, next.m, p);
      } else {
        pass();
      }
      const Chunks there = chunks_of(run_, span, args_.window);
      if (there.begin > 0 || there.end < kSpanChunks) clear_others(there);
      if (working) {
        add_span<kHeadDim>(ring_, ones_, p, next);
        fold(folded, next);
      } else {
        pass();
      }
    }
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
  __device__ __forceinline__ const Bf16Bits* query(int row) const {
    const int token = row / run_.num_heads;
    return args_.q + (run_.row + token) * args_.q_row_stride +
           (run_.head + row - token * run_.num_heads) * args_.q_head_stride;
  }

  // Rows of q as the cache has its rows. Rows that are not there are zeros.
  __device__ __forceinline__ void load_queries() {
    constexpr int kUnits = kHeadDim / 8, kEach = kWarpgroupRows * kUnits / kGroupThreads;
    const int first = static_cast<int>(threadIdx.x) % kGroupThreads;
    uint4 values[kEach];  // all at once: each takes long
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = first + i * kGroupThreads, row = first_row_ + at / kUnits;
      values[i] = row < num_rows_ ? *reinterpret_cast<const uint4*>(query(row) + at % kUnits * 8) : uint4{0, 0, 0, 0};
    }
    sync_group(group_);  // all are through with those of the tile before
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = first + i * kGroupThreads;
      *reinterpret_cast<uint4*>(queries_ + span_offset(kHeadDim, at / kUnits, at % kUnits * 8) * 2) = values[i];
    }
    publish_writes();
    sync_group(group_);
  }

  // Takes a half from the ring without looking at it.
  __device__ __forceinline__ void pass() {
    ring_.wait_full();
    ring_.leave();
  }

  // Chunks of V that are not there become 0: what the ring held in their place may be K, and NaN. All warpgroups.
  __device__ __forceinline__ void clear_others(Chunks there) {
    constexpr int kUnits = kHeadDim / 8;
    ring_.wait_full();
    for (int i = static_cast<int>(threadIdx.x); i < kSpan * kUnits; i += kUsers) {
      const int token = i / kUnits, unit = i % kUnits, chunk = token / kKeyChunk;
      if (chunk >= there.begin && chunk < there.end) continue;
      clear_unit_at(ring_.half() + span_offset(kHeadDim, token, unit * 8) * 2);
    }
    publish_writes();
    sync_groups();
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
  const int group_, lane_;
  const int first_row_, warp_row_;  // of the tile: this warpgroup's, this warp's
  const int num_rows_;
  char* const queries_;
  const std::uint32_t ones_;
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    prefill_kernel(const __grid_constant__ SpanArgs args, const SpanRun* runs, int num_runs) {
  extern __shared__ __align__(1024) char memory[];
  const std::uint32_t at = shared_address(memory), barriers = at + Shape<kHeadDim>::kBarriers;
  if (threadIdx.x == 0) PrefillRing<kHeadDim>::make(barriers);
  make_ones(memory + Shape<kHeadDim>::kOnes);
  __syncthreads();
  PrefillRing<kHeadDim> ring(at, barriers);
  const int warp = __shfl_sync(kWarp, static_cast<int>(threadIdx.x) / 32, 0);  // which the compiler knows to be one
  if (warp >= kUsers / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (warp != kUsers / 32) return;
    see_writes();
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      feed<kHeadDim>(args, run, ring);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
#pragma unroll 1
    for (int n = 0; run_of(n) < num_runs; ++n) {
      const SpanRun run = runs[run_of(n)];
      Rows<kHeadDim>(args, run, ring, memory, warp).attend();
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
  return args.layout.head_dim == 128 ? launch<128>(args, runs, num_runs, num_blocks, stream)
                                     : launch<64>(args, runs, num_runs, num_blocks, stream);
}

cudaError_t span_prefill_prepare() {
  const cudaError_t error = prepare<64>();
  return error != cudaSuccess ? error : prepare<128>();
}

}  // namespace mortise::cuda
