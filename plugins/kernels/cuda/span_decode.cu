// The decode kernel, for few rows and long contexts. Each thread block first computes runs of spans that sequences
// share, limited by arithmetic (span_shared.cuh), then runs of spans that one sequence sees alone, limited by reading
// the cache (span_own.cuh). All thread blocks are resident at once: two on each multiprocessor, or one if heads are
// large. No thread block waits for another.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_head_dim.hpp"
#include "kernels/cuda/span_own.cuh"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_shared.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

// A thread block has two warpgroups. The warps of the first compute, and need many registers. Of the second, one warp
// requests K and V and three convert a cache in bytes, so its threads need few. If two thread blocks share
// a multiprocessor, a thread has 128 registers; otherwise there are enough for all.
constexpr int kThreads = 2 * kDecodeWarps * 32;
constexpr int kManyRegisters = 200, kFewRegisters = 56;

template <int kHeadDim, SpanCache kCache>
struct Shape {
  using Ring = DecodeRing<kHeadDim, kCache>;
  using Stage = DecodeStageShape<kHeadDim>;  // of a cache in bytes
  static constexpr bool kStages = in_bytes(kCache);
  static constexpr int kStage = std::max(SharedShape<kHeadDim, kCache>::kBytes, OwnShape<kHeadDim, kCache>::kBytes);
  static constexpr int kBarriers = kStage + (kStages ? Stage::kBytes : 0);
  static constexpr int kStageBarriers = kBarriers + Ring::Shape::kBarrierBytes;
  static constexpr int kOnes = (kStageBarriers + (kStages ? Stage::kBarrierBytes : 0) + 15) / 16 * 16;
  static constexpr int kBytes = kOnes + kOnesBytes;
  static constexpr int kBlocksPerSm = span_decode_blocks_per_sm(kHeadDim);
  static_assert(kBlocksPerSm * (kBytes + 1024) <= 228 << 10, "what a multiprocessor has, 1 KiB of each block its own");
};

// Runs in the warps that convert a cache in bytes to bf16. Another warp loads it.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void convert_all(std::uint32_t memory, bool shares, DecodeRing<kHeadDim, kCache>& ring) {
  using ItsShape = Shape<kHeadDim, kCache>;
  Converter<kHeadDim, kCache, typename ItsShape::Stage, typename ItsShape::Ring> converter(
      memory + ItsShape::kStage, memory + ItsShape::kStageBarriers, ring,
      static_cast<int>(threadIdx.x) - (kDecodeWarps + 1) * 32);
  if (shares) {
    while (converter.convert_half()) {
    }
    sync_all();
  }
  while (converter.convert_half()) {
  }
}

template <int kHeadDim, SpanCache kCache>
__global__ void __launch_bounds__(kThreads, Shape<kHeadDim, kCache>::kBlocksPerSm)
    decode_kernel(const __grid_constant__ SpanArgs args, const __grid_constant__ SpanWork work) {
  extern __shared__ __align__(1024) char memory[];
  using ItsShape = Shape<kHeadDim, kCache>;
  constexpr bool kShares = ItsShape::kBlocksPerSm > 1;
  let_next_kernel_begin();
  const std::uint32_t at = shared_address(memory), barriers = at + ItsShape::kBarriers;
  if (threadIdx.x == 0) {
    ItsShape::Ring::make(barriers);
    if constexpr (ItsShape::kStages) StagePlaces<typename ItsShape::Stage>::make(at + ItsShape::kStageBarriers);
  }
  make_ones(memory + ItsShape::kOnes);
  __syncthreads();
  const int block = static_cast<int>(blockIdx.x);
  const bool has_shared = block < work.shared.num_blocks, has_own = block < work.num_blocks;
  const SharedRun* const shared = work.shared.runs + (has_shared ? work.shared.block_begin[block] : 0);
  const SharedRun* const shared_end = work.shared.runs + (has_shared ? work.shared.block_begin[block + 1] : 0);
  const SpanRun* const run = work.runs + (has_own ? work.worker_begin[block] : 0);
  const SpanRun* const end = work.runs + (has_own ? work.worker_begin[block + 1] : 0);
  typename ItsShape::Ring ring(at, barriers);
  // q has one place in shared memory for both kinds of runs, so all warps synchronise between them.
  if (threadIdx.x / 32 >= kDecodeWarps) {
    if constexpr (kShares) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFewRegisters));
    if (threadIdx.x / 32 == kDecodeWarps) {
      if constexpr (ItsShape::kStages) {
        DecodeSource<kHeadDim, kCache> stage(at + ItsShape::kStage, at + ItsShape::kStageBarriers);
        SharedFeeder<kHeadDim, kCache> feeder(args, shared, shared_end, stage);
        OwnFeeder<kHeadDim, kCache> own_feeder(args, run, end, stage, at);
        wait_for_kernel_before();
        see_writes();
        feeder.feed_all();
        if (shared != shared_end) {
          stage.finish();
          sync_all();
        }
        own_feeder.feed_all();
        stage.finish();
      } else {
        SharedFeeder<kHeadDim, kCache> feeder(args, shared, shared_end, ring);
        OwnFeeder<kHeadDim, kCache> own_feeder(args, run, end, ring, at);
        wait_for_kernel_before();
        see_writes();
        feeder.feed_all();
        if (shared != shared_end) sync_all();
        own_feeder.feed_all();
      }
    } else {
      wait_for_kernel_before();
      if constexpr (ItsShape::kStages) {
        convert_all<kHeadDim, kCache>(at, shared != shared_end, ring);
      } else if (shared != shared_end) {
        sync_all();
      }
    }
  } else {
    if constexpr (kShares) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kManyRegisters));
    SharedTile<kHeadDim, kCache> tile(args, work.shared.rows, ring, memory, at + ItsShape::kOnes);
    if (shared != shared_end) tile.enter(*shared);
    wait_for_kernel_before();
#pragma unroll 1
    for (const SharedRun* next = shared; next != shared_end;) {
      tile.do_run();
      if (++next != shared_end) tile.enter(*next);
    }
    if (shared != shared_end) sync_all();
    do_own_spans<kHeadDim, kCache>(args, run, end, ring, at);
  }
}

template <int kHeadDim, SpanCache kCache>
cudaError_t launch(const SpanArgs& args, const SpanWork& work, cudaStream_t stream) {
  return launch_overlapped(decode_kernel<kHeadDim, kCache>, std::max(work.shared.num_blocks, work.num_blocks), kThreads,
                           Shape<kHeadDim, kCache>::kBytes, stream, args, work);
}

template <int kHeadDim, SpanCache kCache>
cudaError_t prepare() {
  return cudaFuncSetAttribute(decode_kernel<kHeadDim, kCache>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              Shape<kHeadDim, kCache>::kBytes);
}

}  // namespace

cudaError_t span_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream) {
  return with_head_dim(args.layout.head_dim, args.layout.cache, [&](auto head_dim, auto cache) {
    return launch<decltype(head_dim)::value, decltype(cache)::value>(args, work, stream);
  });
}

cudaError_t span_decode_prepare(std::int32_t head_dim, SpanCache cache) {
  return with_head_dim(head_dim, cache,
                       [](auto d, auto c) { return prepare<decltype(d)::value, decltype(c)::value>(); });
}

}  // namespace mortise::cuda
