// A thread block computes tiles of 64 rows, 16 for each of its four warps, one tile after the other: runs of shared
// spans, runs of one sequence, or half of a run of the prefill. The keys of a span come in four pieces of 64 keys - K,
// K, V, V - to places in shared memory, requested a few pieces ahead (cp.async). A cache in bytes is widened on the
// way, without copies in flight.
#include "kernels/cuda/span_tiles.hpp"

#include <algorithm>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/span_head_dim.hpp"
#include "kernels/cuda/span_own.cuh"
#include "kernels/cuda/span_rows.cuh"
#include "kernels/cuda/span_stage.cuh"
#include "kernels/cuda/span_warpgroup.cuh"

namespace mortise::cuda {
namespace {

using namespace span;

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kTileRows = kWarps * 16;
constexpr int kPieceChunks = kWarps;                     // each warp loads one
constexpr int kPieces = 2 * kSpanChunks / kPieceChunks;  // of a span: half of them K, then V
static_assert(kPieces == 4 && kTileRows == kSharedRows && kPrefillRows % kTileRows == 0);

template <int kHeadDim>
struct Shape {
  static constexpr int kPieceBytes = kPieceChunks * Piece<kHeadDim>::kBytes;
  static constexpr int kPlaces = kHeadDim <= 128 ? 4 : 2;
  // of a row of q; the 16 bytes spread the rows of an ldmatrix over all banks
  static constexpr int kRowBytes = kHeadDim * 2 + 16;
  static constexpr int kQueries = kPlaces * kPieceBytes;
  static constexpr int kBytes = kQueries + kTileRows * kRowBytes;
  static_assert(kBytes <= 99 << 10, "what a block has at compute capability 8.6 and 8.9");
};

// The work of a launch: that of the decode kernel, or the runs of the prefill.
struct TilesWork {
  SpanWork decode;
  const SpanRun* prefill;  // null: decode
};

// Rows first .. first + 63 of a run, or the rows of a run of shared spans. A value; all threads have the same.
struct Tile {
  bool shared;
  SpanRun own;    // unless shared
  SharedRun run;  // if shared
  int first;      // of the rows of `own`
  int num_rows;   // of the tile
  int span_begin, span_end;
  int low, high;  // positions of the first and the last row of `own`
  bool folds;     // the spans are merged; otherwise each gives a partial
};

__device__ __forceinline__ Tile tile_of(const SpanRun& run, int first, int window) {
  Tile tile{};
  tile.own = run;
  tile.first = first;
  tile.num_rows = max(0, min(run.num_tokens * run.num_heads - first, kTileRows));
  tile.span_begin = run.span_begin;
  tile.span_end = run.span_end;
  tile.low = run.position + first / run.num_heads;
  tile.high = run.position + (first + max(tile.num_rows, 1) - 1) / run.num_heads;
  tile.folds = run.span_begin == first_span(run, window);
  if (run.partial < 0) {  // spans that none of these rows sees change no bit
    tile.span_begin = max(tile.span_begin, visible_at(tile.low, window).low / kSpan);
    tile.span_end = min(tile.span_end, tile.high / kSpan + 1);
  }
  return tile;
}

__device__ __forceinline__ Tile tile_of(const SharedRun& run) {
  Tile tile{};
  tile.shared = true;
  tile.run = run;
  tile.num_rows = run.num_rows;
  tile.span_begin = run.span_begin;
  tile.span_end = run.span_end;
  tile.folds = run.folds != 0;
  return tile;
}

// Widens a chunk of a cache in bytes to bf16, as the Converter of span_stage.cuh, from global memory. Called by a warp.
// Not inlined: pieces are requested at several places in the code.
template <int kHeadDim>
__device__ __noinline__ void widen_chunk(const char* from, std::uint32_t to, bool fp8) {
  constexpr int kUnits = kHeadDim / 16;  // of 16 numbers, in a row; a chunk has 16 rows
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kHeadDim; i += 32) {
    const int row = i / kUnits, unit = i % kUnits;
    const uint4 q = *reinterpret_cast<const uint4*>(from + i * 16);
    const float scale = *reinterpret_cast<const float*>(from + 16 * kHeadDim + row * 4);
    const auto wide = [&](std::uint32_t word) {
      return fp8 ? widened<SpanCache::kFp8>(word, scale) : widened<SpanCache::kInt8>(word, scale);
    };
    const uint2 x = wide(q.x), y = wide(q.y), z = wide(q.z), w = wide(q.w);
    put_unit_at(to + span_offset(kHeadDim, row, unit * 16) * 2, uint4{x.x, x.y, y.x, y.y});
    put_unit_at(to + span_offset(kHeadDim, row, unit * 16 + 8) * 2, uint4{z.x, z.y, w.x, w.y});
  }
}

// Brings the pieces of a tile's spans. One per thread; methods are called by all threads. Invariant: blocks_ are those
// of this warp's chunks in the span whose first piece is requested next.
template <int kHeadDim>
class Source {
 public:
  __device__ __forceinline__ Source(const SpanArgs& args, const Tile& tile, std::uint32_t memory)
      : args_(args),
        tile_(tile),
        memory_(memory),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        table_(tile.shared ? tile.run.table : tile.own.table),
        head_(static_cast<std::int64_t>(tile.shared ? tile.run.kv_head : tile.own.kv_head) *
              static_cast<std::int64_t>(args.layout.head_elements)) {
    load_blocks(tile.span_begin);
  }

  // The chunks of a span that some row of the tile sees. Others are neither read nor multiplied.
  __device__ __forceinline__ Chunks chunks(int span) const {
    if (tile_.shared) return {0, kSpanChunks};
    return chunks_of(span, tile_.low, tile_.high, args_.window);
  }

  // Requests the next piece.
  __device__ __forceinline__ void request() {
    const int span = tile_.span_begin + next_ / kPieces, at = next_ % kPieces;
    if (span < tile_.span_end) {
      if (at == 0) {
        here_[0] = blocks_[0], here_[1] = blocks_[1];
        load_blocks(span + 1);  // long before they are needed
      }
      const int chunk = at % 2 * kPieceChunks + warp_;
      const Chunks seen = chunks(span);
      if (chunk >= seen.begin && chunk < seen.end) load(span, chunk, at / 2 != 0, place(next_));
    }
    commit_copies();
    ++next_;
  }
  __device__ __forceinline__ std::uint32_t place(int piece) const {
    return memory_ + piece % Shape<kHeadDim>::kPlaces * Shape<kHeadDim>::kPieceBytes;
  }

 private:
  __device__ __forceinline__ void load_blocks(int span) {
    if (span >= tile_.span_end) return;
    const Chunks seen = chunks(span);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int chunk = half * kPieceChunks + warp_;
      if (chunk < seen.begin || chunk >= seen.end) continue;
      blocks_[half] = args_.block_table[table_ + ((span * kSpan + chunk * kKeyChunk) >> args_.layout.block_shift)];
    }
  }

  // Loads K or V of 16 tokens.
  __device__ __forceinline__ void load(int span, int chunk, bool values, std::uint32_t piece) const {
    const bool bytes = in_bytes(args_.layout.cache);
    const int token = (span * kSpan + chunk * kKeyChunk) & (args_.layout.block_size - 1);
    const auto offset = [&](int t) {
      return bytes ? CacheChunk<kHeadDim, SpanCache::kInt8>::offset(t)
                   : CacheChunk<kHeadDim, SpanCache::kBf16>::offset(t);
    };
    const Bf16Bits* const from = args_.kv +
                                 here_[chunk / kPieceChunks] * static_cast<std::int64_t>(args_.layout.block_elements) +
                                 head_ + offset(token) + (values ? offset(args_.layout.block_size) : 0);
    const std::uint32_t to = piece + warp_ * Piece<kHeadDim>::kBytes;
    if (!bytes) {
#pragma unroll
      for (int i = 0; i < Piece<kHeadDim>::kBytes / 16; i += 32) {
        if (i + lane_ < Piece<kHeadDim>::kBytes / 16) copy_async(to + (i + lane_) * 16, from + (i + lane_) * 8);
      }
    } else {
      widen_chunk<kHeadDim>(reinterpret_cast<const char*>(from), to, args_.layout.cache == SpanCache::kFp8);
    }
  }

  const SpanArgs& args_;
  const Tile& tile_;
  const std::uint32_t memory_;
  const int warp_, lane_, table_;
  const std::int64_t head_;
  int next_ = 0;  // piece
  std::int64_t blocks_[2] = {}, here_[2] = {};
};

// Computes tiles. One per thread; methods are called by all threads. Lane l has rows l / 4 and l / 4 + 8 of its warp.
template <int kHeadDim>
class Rows {
 public:
  using ItsShape = Shape<kHeadDim>;
  __device__ Rows(const SpanArgs& args, const SharedRow* shared_rows, std::uint32_t memory)
      : args_(args),
        shared_rows_(shared_rows),
        memory_(memory),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void attend(const Tile& tile) {
    if (tile.num_rows == 0) return;
    __syncthreads();  // all warps are done with the tile before
    load_queries(tile);
    Source<kHeadDim> source(args_, tile, memory_);
#pragma unroll 1
    for (int i = 0; i < ItsShape::kPlaces; ++i) source.request();
    find_rows(tile);
    const bool idle = warp_ * 16 >= tile.num_rows;
    WarpgroupPartial<kHeadDim> folded;
    clear(folded);
    int piece = 0;
#pragma unroll 1
    for (int span = tile.span_begin; span < tile.span_end; ++span, piece += kPieces) {
      const Chunks seen = source.chunks(span);
      Scores s;
#pragma unroll
      for (int i = 0; i < kKeyTiles; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.0f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        wait_for_copies<ItsShape::kPlaces - 1>();
        __syncthreads();
        if (!idle) add_keys(source.place(piece + half), half, seen, s);
        __syncthreads();
        source.request();
      }
      WarpgroupStats stats;
      Probabilities p;
      if (!idle) probabilities_of(tile, span, s, stats, p);
      wait_for_copies<ItsShape::kPlaces - 2>();
      __syncthreads();
      if (!idle) add_values(tile, span, source.place(piece + 2), source.place(piece + 3), seen, p, stats, folded);
      __syncthreads();
      source.request();
      source.request();
    }
    wait_for_copies<0>();
    if (!tile.folds || idle) return;
    if (!tile.shared && tile.own.partial < 0) {
      write_out(tile, folded);
    } else {
      write_partial(folded.o, 0, folded.m, folded.sum, 0);
    }
  }

 private:
  static constexpr int kUnits = kHeadDim / 8;  // of 16 bytes in a row
  static constexpr int kPassTiles = kPassColumns<kHeadDim> / 8;

  // Rows behind the last become zeros.
  __device__ __forceinline__ void load_queries(const Tile& tile) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kUnits; i += kThreads) {
      const int row = i / kUnits, unit = i % kUnits;
      uint4 value = {0, 0, 0, 0};
      if (row < tile.num_rows) value = *reinterpret_cast<const uint4*>(query(tile, row) + unit * 8);
      put_unit_at(memory_ + ItsShape::kQueries + row * ItsShape::kRowBytes + unit * 16, value);
    }
  }
  __device__ __forceinline__ const Bf16Bits* query(const Tile& tile, int row) const {
    if (tile.shared) {
      const SharedRow& from = shared_rows_[tile.run.first_row + row];
      return args_.q + from.row * args_.q_row_stride +
             (tile.run.kv_head * args_.heads_per_kv_head + from.head) * args_.q_head_stride;
    }
    const int at = tile.first + row, token = at / tile.own.num_heads;
    return args_.q + (tile.own.row + token) * args_.q_row_stride +
           (tile.own.head + at - token * tile.own.num_heads) * args_.q_head_stride;
  }

  // Which keys the lane's two rows see, and where their partials are. Rows behind the last see what the last sees, or
  // all of a shared span.
  __device__ __forceinline__ void find_rows(const Tile& tile) {
    const auto position = [&](int row) {
      return min(tile.own.position + (tile.first + row) / max(int{tile.own.num_heads}, 1), tile.high);
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_ * 16 + lane_ / 4 + 8 * half;
      real_[half] = row < tile.num_rows;
      sees_[half] = {0, 0x7fffffff};
      if (!tile.shared) {
        sees_[half] = visible_at(position(row), args_.window);
        first_partial_[half] = tile.own.partial + tile.first + row;
        partial_stride_[half] = tile.own.num_tokens * tile.own.num_heads;
      } else if (real_[half]) {
        const SharedRow& from = shared_rows_[tile.run.first_row + row];
        sees_[half] = visible_at(from.position, args_.window);
        partial_stride_[half] = from.partial_stride;
        first_partial_[half] =
            from.partial + tile.run.kv_head * from.kv_head_stride + tile.run.partial * from.partial_stride;
      }
    }
    warp_low_ = position(warp_ * 16), warp_high_ = position(warp_ * 16 + 15);
  }
  // Adds the products with half of the span's K to the scores.
  __device__ __forceinline__ void add_keys(std::uint32_t keys, int half, Chunks seen, Scores& s) const {
    using Keys = Piece<kHeadDim>;
    const std::uint32_t by_units = Keys::lane_by_units(lane_);
    const std::uint32_t rows =
        memory_ + ItsShape::kQueries + (warp_ * 16 + lane_ % 16) * ItsShape::kRowBytes + lane_ / 16 * 16;
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      std::uint32_t q[4];
      load_matrices(q, rows + step * 32);
#pragma unroll
      for (int c = 0; c < kPieceChunks; ++c) {
        const int chunk = half * kPieceChunks + c;
        if (chunk < seen.begin || chunk >= seen.end) continue;
        std::uint32_t k[4];
        load_matrices(k, Keys::address(keys + c * Keys::kBytes, by_units, step));
        mma(s[2 * chunk], q, k[0], k[1]);
        mma(s[2 * chunk + 1], q, k[2], k[3]);
      }
    }
  }

  __device__ __forceinline__ void probabilities_of(const Tile& tile, int span, Scores& s, WarpgroupStats& stats,
                                                   Probabilities& p) const {
    const bool masked = tile.shared ? __any_sync(kWarp, max(sees_[0].low, sees_[1].low) > span * kSpan)
                                    : !sees_all(span, warp_low_, warp_high_, args_.window);
    const int first_key = span * kSpan + 2 * (lane_ % 4);
    if (masked) hide(s, sees_, first_key);
    stats.m[0] = row_exponent<0>(s, args_.scale);
    stats.m[1] = row_exponent<1>(s, args_.scale);
    row_probabilities<0>(s, args_.scale, stats.m[0], p);
    row_probabilities<1>(s, args_.scale, stats.m[1], p);
    if (masked) hide(p, sees_, first_key);
  }

  // Completes the span's partial, some columns at a time: merges it, or writes it.
  __device__ __forceinline__ void add_values(const Tile& tile, int span, std::uint32_t low, std::uint32_t high,
                                             Chunks seen, const Probabilities& p, WarpgroupStats& stats,
                                             WarpgroupPartial<kHeadDim>& folded) const {
    using Values = Piece<kHeadDim>;
    const std::uint32_t by_rows = Values::lane_by_rows(lane_);
    SpanFold<kHeadDim> fold(folded, stats);
#pragma unroll
    for (int pass = 0; pass < kUnits / kPassTiles; ++pass) {
      float o[kPassTiles][4], sums[4] = {};
#pragma unroll
      for (int i = 0; i < kPassTiles; ++i) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;
#pragma unroll
      for (int chunk = 0; chunk < kSpanChunks; ++chunk) {
        if (chunk < seen.begin || chunk >= seen.end) continue;
        const std::uint32_t values = (chunk < kPieceChunks ? low : high) + chunk % kPieceChunks * Values::kBytes;
#pragma unroll
        for (int i = 0; i < kPassTiles; i += 2) {
          std::uint32_t v[4];
          load_matrices_transposed(v, Values::address(values, by_rows, (pass * kPassTiles + i) / 2));
          mma(o[i], p[chunk], v[0], v[1]);
          mma(o[i + 1], p[chunk], v[2], v[3]);
        }
        if (pass == 0) mma(sums, p[chunk], kOnes, kOnes);
      }
      if (pass == 0) {
        stats.sum[0] = checked_sum(sums[0], stats.m[0]);
        stats.sum[1] = checked_sum(sums[2], stats.m[1]);
      }
      if (tile.folds) {
        fold(pass, o);
      } else {
        write_partial(o, pass * kPassTiles * 8, stats.m, stats.sum, span - tile.span_begin);
      }
    }
  }

  // Writes columns from first_column on, and with the first columns the exponents and sums, to the rows' partial number
  // `partial`.
  template <int kTiles>
  __device__ __forceinline__ void write_partial(const float (&o)[kTiles][4], int first_column, const float (&m)[2],
                                                const float (&sum)[2], int partial) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!real_[half]) continue;
      const std::int64_t row = first_partial_[half] + static_cast<std::int64_t>(partial) * partial_stride_[half];
      float* const to = args_.partials + row * kHeadDim + first_column + 2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) *reinterpret_cast<float2*>(to + 8 * i) = {o[i][2 * half], o[i][2 * half + 1]};
      if (first_column == 0 && lane_ % 4 == 0) args_.partial_stats[row] = {m[half], sum[half]};
    }
  }

  __device__ __forceinline__ void write_out(const Tile& tile, const WarpgroupPartial<kHeadDim>& from) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!real_[half]) continue;
      const int row = tile.first + warp_ * 16 + lane_ / 4 + 8 * half, token = row / tile.own.num_heads;
      const float inverse_of_sum = inverse(from.sum[half]);
      Bf16Bits* const out = args_.out + (tile.own.row + token) * args_.out_row_stride +
                            (tile.own.head + row - token * tile.own.num_heads) * args_.out_head_stride +
                            2 * (lane_ % 4);
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        store_pair(out + 8 * i, from.o[i][2 * half], from.o[i][2 * half + 1], inverse_of_sum);
      }
    }
  }

  const SpanArgs& args_;
  const SharedRow* const shared_rows_;
  const std::uint32_t memory_;
  const int warp_, lane_;
  Visible sees_[2];
  bool real_[2];
  int first_partial_[2] = {}, partial_stride_[2] = {};
  int warp_low_ = 0, warp_high_ = 0;
};

// Goes through the tiles of a block. One per thread; all threads of a block take the same tiles. Invariant: shared_ and
// run_ are the next runs.
class Tiles {
 public:
  __device__ Tiles(const TilesWork& work) : prefill_(work.prefill) {
    const int block = static_cast<int>(blockIdx.x);
    if (prefill_ != nullptr) {
      constexpr int kParts = kPrefillRows / kTileRows;
      run_ = prefill_ + block / kParts, end_ = run_ + 1;
      first_ = block % kParts * kTileRows;
      return;
    }
    const SpanWork& decode = work.decode;
    if (block < decode.shared.num_blocks) {
      shared_ = decode.shared.runs + decode.shared.block_begin[block];
      shared_end_ = decode.shared.runs + decode.shared.block_begin[block + 1];
    }
    if (block < decode.num_blocks) {
      run_ = decode.runs + decode.worker_begin[block];
      end_ = decode.runs + decode.worker_begin[block + 1];
    }
  }

  // Returns false after the last tile.
  __device__ __forceinline__ bool next(const SpanArgs& args, Tile& tile) {
    if (shared_ != shared_end_) {
      tile = tile_of(*shared_++);
      return true;
    }
    for (; run_ != end_; ++run_) {
      if (run_->span_begin == run_->span_end) {
        write_zeros(args, *run_);
        continue;
      }
      tile = tile_of(*run_++, first_, args.window);
      return true;
    }
    return false;
  }

 private:
  const SpanRun* const prefill_;
  const SharedRun *shared_ = nullptr, *shared_end_ = nullptr;
  const SpanRun *run_ = nullptr, *end_ = nullptr;
  int first_ = 0;
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 2)
    tiles_kernel(const __grid_constant__ SpanArgs args, const __grid_constant__ TilesWork work) {
  extern __shared__ __align__(1024) char memory[];
  Tiles tiles(work);
  Rows<kHeadDim> rows(args, work.decode.shared.rows, shared_address(memory));
  Tile tile;
#pragma unroll 1
  while (tiles.next(args, tile)) rows.attend(tile);
}

cudaError_t launch(const SpanArgs& args, const TilesWork& work, std::int32_t num_blocks, cudaStream_t stream) {
  return with_head_dim(args.layout.head_dim, [&](auto head_dim) {
    constexpr int kHeadDim = decltype(head_dim)::value;
    tiles_kernel<kHeadDim>
        <<<static_cast<unsigned>(num_blocks), kThreads, Shape<kHeadDim>::kBytes, stream>>>(args, work);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t span_tiles_prepare(std::int32_t head_dim, SpanCache) {
  return with_head_dim(head_dim, [](auto d) {
    constexpr int kHeadDim = decltype(d)::value;
    return cudaFuncSetAttribute(tiles_kernel<kHeadDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                Shape<kHeadDim>::kBytes);
  });
}

cudaError_t span_tiles_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream) {
  return launch(args, {work, nullptr}, std::max(work.shared.num_blocks, work.num_blocks), stream);
}

cudaError_t span_tiles_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t,
                               cudaStream_t stream) {
  if (num_runs == 0) return cudaSuccess;
  return launch(args, {{}, runs}, num_runs * (kPrefillRows / kTileRows), stream);
}

}  // namespace mortise::cuda
