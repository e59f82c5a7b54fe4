// The decode kernel: few rows, long contexts; limited by how fast the cache can be read. Each warp is a worker of its
// own: it goes through its runs, and keeps the next chunks of K and V (16 tokens each) on their way to its part of
// shared memory, across spans and runs. No warp waits for another. The first blocks have the spans that sequences share
// (span_shared.cuh).
#include <algorithm>

#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_launch.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_shared.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kRingBytes = 20480;  // of a warp: 5 chunks at head_dim 128, 10 at 64
constexpr int kQueued = 32;        // chunks, at most, of which it is known where they come from: those of two spans

template <int kHeadDim>
struct Shape {
  using ChunkPiece = Piece<kHeadDim>;
  static constexpr int kSlots = kRingBytes / ChunkPiece::kBytes;
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kFoldBytes = kDecodeRows * kHeadDim * 4;
  static constexpr int kWarpBytes = kRingBytes + kFoldBytes + kQueued * 8;
  static constexpr int kBlockBytes = kDecodeWarps * kWarpBytes;
};

// Brings the chunks of a worker's runs into the ring, in the order in which they are used: K of a span, V of it. Where
// they come from is worked out a span at a time, and kept in a queue in shared memory: what is done for each chunk, and
// stands in the code for each chunk of a span, is then little.
template <int kHeadDim>
class Feeder {
 public:
  __device__ Feeder(const SpanArgs& args, const SpanRun* run, const SpanRun* end, std::uint32_t ring,
                    std::uint64_t* queue, int lane)
      : args_(args), next_run_(run), end_(end), ring_(ring), queue_(queue), lane_(lane) {
    enter_run();
  }

  // Before `count` chunks are fed, if there are as many.
  __device__ __forceinline__ void prepare(int count) {
#pragma unroll 1
    while (!done_ && queued_ - fed_ < count) queue_span();
  }

  // Starts the copies of one more chunk, and commits a group even if there is none left.
  __device__ __forceinline__ void feed() {
    if (fed_ < queued_) {
      const std::uint64_t chunk = queue_[fed_++ & (kQueued - 1)];
      const char* from = reinterpret_cast<const char*>(chunk & kAddress) + lane_ * 16;
      const int last = static_cast<int>(chunk >> kAddressBits) - lane_ / 8;
      const std::uint32_t to = ring_ + slot_ * Piece<kHeadDim>::kBytes + lane_ * 16;
#pragma unroll
      for (int i = 0; i < kHeadDim / 16; ++i) {
        // Units lie by 8 tokens, then 64 elements of each: lane / 8 is part of the token.
        const int token = i * 32 / kHeadDim * 8 + i * 4 % 8;
        copy_async(to + i * 512, from + i * 512, token > last ? 0 : 16);
      }
      if (++slot_ == Shape<kHeadDim>::kSlots) slot_ = 0;
    }
    commit_copies();
  }

 private:
  static constexpr int kAddressBits = 56;
  static constexpr std::uint64_t kAddress = (std::uint64_t{1} << kAddressBits) - 1;

  // Lanes 0 to 7 write the span's chunks of K, 8 to 15 those of V.
  __device__ __forceinline__ void queue_span() {
    const Chunks chunks = chunks_of(span_, run_.position, last_, args_.window);
    const int count = chunks.end - chunks.begin, chunk = lane_ % kSpanChunks;
    const bool values = lane_ >= kSpanChunks;
    __syncwarp();  // all lanes have read what is replaced
    if (lane_ < 2 * kSpanChunks && chunk >= chunks.begin && chunk < chunks.end) {
      const int key = span_ * kSpan + chunk * kKeyChunk;
      const Bf16Bits* from =
          args_.kv + block_ * static_cast<std::int64_t>(args_.layout.block_elements) +
          static_cast<std::int64_t>(run_.kv_head) * static_cast<std::int64_t>(args_.layout.head_elements) +
          (values ? args_.layout.block_size * kHeadDim : 0) + (key & (args_.layout.block_size - 1)) * kHeadDim;
      // V beyond the last key counts as 0: what lies there may be NaN, and 0 x NaN is NaN.
      const int last = values ? min(last_ - key, kKeyChunk - 1) : kKeyChunk - 1;
      queue_[(queued_ + (values ? count : 0) + chunk - chunks.begin) & (kQueued - 1)] =
          reinterpret_cast<std::uint64_t>(from) | static_cast<std::uint64_t>(last) << kAddressBits;
    }
    queued_ += 2 * count;
    if (++span_ < run_.span_end) {
      load_block();
    } else {
      enter_run();
    }
  }

  __device__ __forceinline__ void enter_run() {
    do {
      done_ = next_run_ == end_;
      if (done_) return;
      run_ = *next_run_++;
    } while (run_.span_begin == run_.span_end);
    last_ = run_.position + run_.num_tokens - 1;
    span_ = run_.span_begin;
    load_block();
  }

  // That of the lane's chunk in the next span to be queued, long before it is.
  __device__ __forceinline__ void load_block() {
    const Chunks chunks = chunks_of(span_, run_.position, last_, args_.window);
    const int chunk = lane_ % kSpanChunks;
    if (chunk < chunks.begin || chunk >= chunks.end) return;
    block_ = args_.block_table[run_.table + ((span_ * kSpan + chunk * kKeyChunk) >> args_.layout.block_shift)];
  }

  const SpanArgs& args_;
  const SpanRun* next_run_;
  const SpanRun* const end_;
  const std::uint32_t ring_;
  std::uint64_t* const queue_;
  const int lane_;
  SpanRun run_;
  bool done_ = false;
  int last_ = 0, span_ = 0;
  std::int64_t block_ = 0;
  int queued_ = 0, fed_ = 0, slot_ = 0;  // chunks of all runs; place of the next
};

// What a warp has of one run.
template <int kHeadDim>
struct Tile {
  std::uint32_t q[Shape<kHeadDim>::kSteps][4];
  int num_rows;
  int token[2];  // of this lane's rows
  int head[2];
  bool real[2];
};

template <int kHeadDim>
__device__ void load_tile(const SpanArgs& args, const SpanRun& run, int lane, Tile<kHeadDim>& tile) {
  tile.num_rows = run.num_tokens * run.num_heads;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + 8 * half;
    tile.token[half] = row / run.num_heads;
    tile.head[half] = row - tile.token[half] * run.num_heads;
    tile.real[half] = row < tile.num_rows;
    const Bf16Bits* q = args.q + (run.row + tile.token[half]) * args.q_row_stride +
                        (run.head + tile.head[half]) * args.q_head_stride + 2 * (lane % 4);
#pragma unroll
    for (int step = 0; step < Shape<kHeadDim>::kSteps; ++step) {
      const std::uint32_t* at = reinterpret_cast<const std::uint32_t*>(q + step * 16);
      tile.q[step][half] = tile.real[half] ? at[0] : 0;
      tile.q[step][2 + half] = tile.real[half] ? at[4] : 0;
    }
  }
}

// Rows without keys: out = 0.
__device__ void write_zeros(const SpanArgs& args, const SpanRun& run, int lane) {
  const int units = args.layout.head_dim / 8;
  const int heads = run.num_heads * units, all = run.num_tokens * heads;
  for (int i = lane; i < all; i += 32) {
    const int token = i / heads, head = i % heads / units, unit = i % units;
    Bf16Bits* out = args.out + (run.row + token) * args.out_row_stride + (run.head + head) * args.out_head_stride;
    *reinterpret_cast<uint4*>(out + unit * 8) = uint4{0, 0, 0, 0};
  }
}

template <int kHeadDim>
using Output = float[kHeadDim / 8][4];

// A partial, or what is folded so far, to row `row` of the partials on.
template <int kHeadDim>
__device__ void write_partial(const SpanArgs& args, const Tile<kHeadDim>& tile, int row, int lane,
                              const Output<kHeadDim>& o, const float (&m)[2], const float (&sum)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!tile.real[half]) continue;
    const std::int64_t r = row + lane / 4 + 8 * half;
    float* to = args.partials + r * kHeadDim + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
      *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
    }
    if (lane % 4 == 0) args.partial_stats[r] = {m[half], sum[half]};
  }
}

template <int kHeadDim>
__device__ void write_out(const SpanArgs& args, const SpanRun& run, const Tile<kHeadDim>& tile, int lane,
                          const Output<kHeadDim>& o, const float (&sum)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!tile.real[half]) continue;
    Bf16Bits* out = args.out + (run.row + tile.token[half]) * args.out_row_stride +
                    (run.head + tile.head[half]) * args.out_head_stride + 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) store_pair(out + 8 * i, o[i][2 * half], o[i][2 * half + 1], sum[half]);
  }
}

// Merges a partial into what is folded so far, O of which lies in shared memory: registers hold the scores, one O and q
// already. `o` becomes the result.
template <int kHeadDim>
__device__ __forceinline__ void fold(float4* folded, int lane, bool first, float (&m)[2], float (&sum)[2],
                                     Output<kHeadDim>& o, const float (&m2)[2], const float (&sum2)[2]) {
  const Weights w[2] = {merge_weights(m[0], m2[0]), merge_weights(m[1], m2[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = merged(sum[half], sum2[half], w[half]);
    m[half] = w[half].m;
  }
#pragma unroll
  for (int i = 0; i < kHeadDim / 8; ++i) {
    const float4 left = first ? float4{0, 0, 0, 0} : folded[i * 32 + lane];
    o[i][0] = merged(left.x, o[i][0], w[0]);
    o[i][1] = merged(left.y, o[i][1], w[0]);
    o[i][2] = merged(left.z, o[i][2], w[1]);
    o[i][3] = merged(left.w, o[i][3], w[1]);
    folded[i * 32 + lane] = {o[i][0], o[i][1], o[i][2], o[i][3]};
  }
}

template <int kHeadDim>
class Worker {
 public:
  __device__ Worker(const SpanArgs& args, Feeder<kHeadDim>& feeder, std::uint32_t ring, float4* folded, int lane)
      : args_(args), feeder_(feeder), ring_(ring), folded_(folded), lane_(lane) {}

  __device__ void do_run(const SpanRun& run) {
    Tile<kHeadDim> tile;
    load_tile(args_, run, lane_, tile);
    const bool folds = run.span_begin == first_span(run, args_.window);
    int partial = run.partial;
    float m[2] = {-infinity(), -infinity()}, sum[2] = {0.0f, 0.0f};
    for (int span = run.span_begin; span < run.span_end; ++span) {
      float o[kHeadDim / 8][4], m2[2], sum2[2];
      do_span(run, tile, span, o, m2, sum2);
      if (folds) {
        fold<kHeadDim>(folded_, lane_, span == run.span_begin, m, sum, o, m2, sum2);
        if (span + 1 < run.span_end) continue;
        if (partial < 0) {
          write_out<kHeadDim>(args_, run, tile, lane_, o, sum);
        } else {
          write_partial<kHeadDim>(args_, tile, partial, lane_, o, m, sum);
        }
      } else {
        write_partial<kHeadDim>(args_, tile, partial, lane_, o, m2, sum2);
        partial += tile.num_rows;
      }
    }
  }

 private:
  // The next chunk is there when this returns, and the one after those on their way is started.
  __device__ __forceinline__ std::uint32_t next_chunk() {
    wait_copies<Shape<kHeadDim>::kSlots - 2>();
    __syncwarp();  // all lanes' copies are there, and all lanes have read the chunk before: its place is free
    feeder_.feed();
    const std::uint32_t chunk = ring_ + slot_ * Piece<kHeadDim>::kBytes;
    if (++slot_ == Shape<kHeadDim>::kSlots) slot_ = 0;
    return chunk;
  }

  __device__ __forceinline__ void do_span(const SpanRun& run, const Tile<kHeadDim>& tile, int span, Output<kHeadDim>& o,
                                          float (&m)[2], float (&sum)[2]) {
    const int last = run.position + run.num_tokens - 1;
    const Chunks chunks = chunks_of(span, run.position, last, args_.window);
    feeder_.prepare(2 * (chunks.end - chunks.begin));
    const std::uint32_t by_units = Piece<kHeadDim>::lane_by_units(lane_),
                        by_rows = Piece<kHeadDim>::lane_by_rows(lane_);
    Scores s;
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      float pair[2][4] = {};
      if (c >= chunks.begin && c < chunks.end) {
        const std::uint32_t chunk = next_chunk();
#pragma unroll
        for (int step = 0; step < Shape<kHeadDim>::kSteps; ++step) {
          add_scores<kHeadDim>(pair, tile.q[step], chunk, by_units, step);
        }
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) s[2 * c + j / 4][j % 4] = pair[j / 4][j % 4];
    }

    const bool masked = !sees_all(span, run.position, last, args_.window);
    const int first_key = span * kSpan + 2 * (lane_ % 4);
    Probabilities p;
    m[0] = softmax<0>(s, visible_at(run.position + tile.token[0], args_.window), first_key, args_.scale, masked, p);
    if (tile.num_rows > 8) {
      m[1] = softmax<1>(s, visible_at(run.position + tile.token[1], args_.window), first_key, args_.scale, masked, p);
    } else {
      m[1] = -infinity();
#pragma unroll
      for (int c = 0; c < kSpanChunks; ++c) p[c][1] = p[c][3] = 0;
    }

    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;
#pragma unroll
    for (int c = 0; c < kSpanChunks; ++c) {
      if (c >= chunks.begin && c < chunks.end) add_values<kHeadDim>(o, sums, p[c], next_chunk(), by_rows);
    }
    sum[0] = checked_sum(sums[0], m[0]);
    sum[1] = checked_sum(sums[2], m[1]);
  }

  const SpanArgs& args_;
  Feeder<kHeadDim>& feeder_;
  const std::uint32_t ring_;
  float4* const folded_;
  const int lane_;
  int slot_ = 0;
};

// One block's workers.
template <int kHeadDim>
__device__ __forceinline__ void do_own_spans(const SpanArgs& args, const SpanWork& work, char* memory) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Neighbouring workers are on different multiprocessors: little work is spread over all of them.
  const int worker = warp * work.num_blocks + static_cast<int>(blockIdx.x) - work.shared.num_blocks;
  const SpanRun* run = work.runs + work.worker_begin[worker];
  const SpanRun* const end = work.runs + work.worker_begin[worker + 1];
  if (run == end) return wait_for_kernel_before();
  char* const mine = memory + warp * Shape<kHeadDim>::kWarpBytes;
  const std::uint32_t ring = shared_address(mine);
  char* const queue = mine + kRingBytes + Shape<kHeadDim>::kFoldBytes;
  Feeder<kHeadDim> feeder(args, run, end, ring, reinterpret_cast<std::uint64_t*>(queue), lane);
  wait_for_kernel_before();
  feeder.prepare(Shape<kHeadDim>::kSlots - 1);
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < Shape<kHeadDim>::kSlots - 1; ++i) feeder.feed();
  Worker<kHeadDim> self(args, feeder, ring, reinterpret_cast<float4*>(mine + kRingBytes), lane);
#pragma unroll 1
  for (; run != end; ++run) {
    const SpanRun current = *run;
    if (current.span_begin == current.span_end) {
      write_zeros(args, current, lane);
    } else {
      self.do_run(current);
    }
  }
  wait_copies<0>();
}

template <int kHeadDim>
__global__ void __launch_bounds__(kDecodeWarps * 32, kDecodeBlocksPerSm)
    decode_kernel(const __grid_constant__ SpanArgs args, const __grid_constant__ SpanWork work) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  if (static_cast<int>(blockIdx.x) < work.shared.num_blocks) {
    share_spans<kHeadDim>(args, work.shared, memory);
  } else {
    do_own_spans<kHeadDim>(args, work, memory);
  }
}

template <int kHeadDim>
constexpr int shared_bytes(bool shares) {
  return shares ? std::max(SharedShape<kHeadDim>::kBlockBytes, Shape<kHeadDim>::kBlockBytes)
                : Shape<kHeadDim>::kBlockBytes;
}

template <int kHeadDim>
cudaError_t launch(const SpanArgs& args, const SpanWork& work, cudaStream_t stream) {
  return launch_overlapped(decode_kernel<kHeadDim>, work.shared.num_blocks + work.num_blocks, kDecodeWarps * 32,
                           shared_bytes<kHeadDim>(work.shared.num_blocks > 0), stream, args, work);
}

template <int kHeadDim>
cudaError_t prepare() {
  return cudaFuncSetAttribute(decode_kernel<kHeadDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              shared_bytes<kHeadDim>(true));
}

}  // namespace

cudaError_t span_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream) {
  return args.layout.head_dim == 128 ? launch<128>(args, work, stream) : launch<64>(args, work, stream);
}

cudaError_t span_decode_prepare() {
  const cudaError_t error = prepare<64>();
  return error != cudaSuccess ? error : prepare<128>();
}

}  // namespace mortise::cuda
