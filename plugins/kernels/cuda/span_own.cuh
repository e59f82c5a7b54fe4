// plugins/kernels/cuda/span_own.cuh: attention for spans that one sequence sees alone: few rows, long contexts; limited
// by reading the cache. A thread block is one worker. Its four warps divide the keys of a span for the scores and
// head_dim for the values. The copies of the next spans are in flight meanwhile, also across runs.
//
// The products are transposed, K q^T and V^T P^T: the rows of a tile are the 8 columns of an `mma`. A decode of a
// KV head's query heads fills most of them.
#pragma once

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/span.hpp"
#include "kernels/cuda/span_ring.cuh"
#include "kernels/cuda/span_rows.cuh"

namespace mortise::cuda::span {

template <int kHeadDim, SpanCache kCache>
struct OwnShape {
  // of a row of q; the 16 bytes spread the 8 rows of an ldmatrix over all banks
  static constexpr int kRowBytes = kHeadDim * 2 + 16;
  static constexpr int kTileBytes = kDecodeRows * kRowBytes;
  static constexpr int kColumnsBytes = kSpan * 16;  // P of 8 rows, [key][row]
  static constexpr int kQueries = DecodeRing<kHeadDim, kCache>::Shape::kBytes;
  static constexpr int kTiles = 2;  // q of this run and of the next run
  static constexpr int kAheadPlaces = in_bytes(kCache) ? DecodeStageShape<kHeadDim>::kPlaces : 0;
  static_assert(DecodeRing<kHeadDim, kCache>::Shape::kPlaces + kAheadPlaces / 2 <= 2 * kTiles,
                "q of a run is overwritten once the ring has left its K");
  static constexpr int kProbabilities = kQueries + kTiles * kTileBytes;
  static constexpr int kMaxima = kProbabilities + kDecodeRows / 8 * kColumnsBytes;
  static constexpr int kBytes = kMaxima + kDecodeWarps * kDecodeRows * 4;
};

// Requests K and V of a worker's runs, span after span, and q together with the first K of a run. Used by one warp:
// lane i requests chunk i and row i. Invariant: unless done_, run_ is the run whose span number span_ is requested
// next.
template <int kHeadDim, SpanCache kCache>
class OwnFeeder {
 public:
  using Shape = OwnShape<kHeadDim, kCache>;
  using Chunk = CacheChunk<kHeadDim, kCache>;
  __device__ OwnFeeder(const SpanArgs& args, const SpanRun* run, const SpanRun* end,
                       DecodeSource<kHeadDim, kCache>& ring, std::uint32_t memory)
      : args_(args),
        next_run_(run),
        end_(end),
        ring_(ring),
        memory_(memory),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    if (next_run_ != end_) upcoming_ = *next_run_;
    enter_run();
  }

  __device__ __forceinline__ void feed_all() {
#pragma unroll 1
    while (!done_) {
      const SpanRun run = run_;
      const Chunks chunks = chunks_of(span_, run.position, run.position + run.num_tokens - 1, args_.window);
      const int key = span_ * kSpan + lane_ * kKeyChunk, num_rows = run.num_tokens * run.num_heads;
      const bool first = span_ == run.span_begin;
      const std::uint32_t tile = memory_ + Shape::kQueries + tile_ * Shape::kTileBytes;
      const Bf16Bits* from =
          args_.kv + block_ * static_cast<std::int64_t>(args_.layout.block_elements) +
          static_cast<std::int64_t>(run.kv_head) * static_cast<std::int64_t>(args_.layout.head_elements) +
          Chunk::offset(key & (args_.layout.block_size - 1));
      if (++span_ == run.span_end) {
        enter_run();
      } else {
        load_block();
      }
      ring_.request(from, chunks.begin, chunks.end, /*once=*/true, first ? num_rows * kHeadDim * 2 : 0);
      if (first && lane_ < num_rows) {
        const int token = lane_ / run.num_heads, head = lane_ - token * run.num_heads;
        const Bf16Bits* q = args_.q + (run.row + token) * args_.q_row_stride + (run.head + head) * args_.q_head_stride;
        copy_bulk(tile + lane_ * Shape::kRowBytes, q, kHeadDim * 2, ring_.full());
      }
      ring_.advance();
      ring_.request(from + Chunk::offset(args_.layout.block_size), chunks.begin, chunks.end, /*once=*/true);
      ring_.advance();
    }
  }

 private:
  // Enters the next run that has spans (padding has none). The run after it is read long before it is needed.
  __device__ __forceinline__ void enter_run() {
    do {
      done_ = next_run_ == end_;
      if (done_) return;
      run_ = upcoming_;
      if (++next_run_ != end_) upcoming_ = *next_run_;
    } while (run_.span_begin == run_.span_end);
    span_ = run_.span_begin;
    tile_ ^= 1;
    load_block();
  }

  // Reads the block id of the lane's chunk in the next span, long before it is needed.
  __device__ __forceinline__ void load_block() {
    const Chunks chunks = chunks_of(span_, run_.position, run_.position + run_.num_tokens - 1, args_.window);
    if (lane_ < chunks.begin || lane_ >= chunks.end) return;
    block_ = args_.block_table[run_.table + ((span_ * kSpan + lane_ * kKeyChunk) >> args_.layout.block_shift)];
  }

  const SpanArgs& args_;
  const SpanRun* next_run_;
  const SpanRun* const end_;
  DecodeSource<kHeadDim, kCache>& ring_;
  const std::uint32_t memory_;
  const int lane_;
  SpanRun run_, upcoming_;
  bool done_ = false;
  int span_ = 0, tile_ = 1;
  std::int64_t block_ = 0;
};

// A partial, or the result folded so far, of kTiles times 8 rows. Lane l has rows 8 t + 2 (l % 4) and the next. Of each
// of the warp's steps of head_dim it has elements l / 4 (o[..][0], o[..][1]) and l / 4 + 8 (o[..][2], o[..][3]).
template <int kHeadDim, int kTiles>
struct OwnPartial {
  // A step has 16 elements. A warp has the steps warp, warp + kDecodeWarps, ..; some warps have one step less.
  static constexpr int kAll = kHeadDim / 16, kSteps = (kAll + kDecodeWarps - 1) / kDecodeWarps;
  static constexpr bool kAlike = kAll % kDecodeWarps == 0;
  float m[kTiles][2], sum[kTiles][2], o[kTiles][kSteps][4];
};

template <int kHeadDim, SpanCache kCache>
// Computes the runs of a worker. One per thread of the four computing warps; methods are called by whole warps.
// Invariant: the ring's next half is K of the span that comes next.
class OwnWorker {
 public:
  using Shape = OwnShape<kHeadDim, kCache>;
  __device__ OwnWorker(const SpanArgs& args, DecodeRing<kHeadDim, kCache>& ring, std::uint32_t memory)
      : args_(args),
        ring_(ring),
        memory_(memory),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void do_run(const SpanRun& run) {
    tile_ ^= 1;
    if (run.num_tokens * run.num_heads > 8) {
      do_tiles<2>(run);
    } else {
      do_tiles<1>(run);
    }
  }

 private:
  static constexpr int kQuerySteps = kHeadDim / 16;
  static constexpr int kMine = kSpanChunks / kDecodeWarps;  // chunks of a span for whose scores a warp is responsible
  template <int kTiles>
  using Partial = OwnPartial<kHeadDim, kTiles>;
  template <int kTiles>
  struct Rows {  // a lane's part of its tile
    std::uint32_t q[kTiles][kQuerySteps][2];
    int position[kTiles][2];
  };

  template <int kTiles>
  __device__ __forceinline__ void do_tiles(const SpanRun& run) {
    Rows<kTiles> rows;
    load_rows<kTiles>(run, rows);
    Partial<kTiles> folded;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) folded.m[t][r] = -infinity(), folded.sum[t][r] = 0.0f;
#pragma unroll
      for (int i = 0; i < Partial<kTiles>::kSteps; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) folded.o[t][i][j] = 0.0f;
      }
    }
    const bool folds = run.span_begin == first_span(run, args_.window);
    const int num_rows = run.num_tokens * run.num_heads;
    int partial = run.partial;
#pragma unroll 1
    for (int span = run.span_begin; span < run.span_end; ++span) {
      Partial<kTiles> next;
      const int last = run.position + run.num_tokens - 1;
      // Without conditions in between, loads of later chunks overlap products of earlier ones.
      if (sees_all(span, run.position, last, args_.window)) {
        do_span<kTiles, true>({0, kSpanChunks}, rows, span, next);
      } else {
        do_span<kTiles, false>(chunks_of(span, run.position, last, args_.window), rows, span, next);
      }
      if (folds) {
        fold(folded, next);
      } else {
        write_partial<kTiles>(partial, num_rows, next);
        partial += num_rows;
      }
    }
    if (!folds) return;
    if (partial < 0) {
      write_out<kTiles>(run, folded);
    } else {
      write_partial<kTiles>(partial, num_rows, folded);
    }
  }

  // Waits for the first K of the run, which brings q along.
  template <int kTiles>
  __device__ __forceinline__ void load_rows(const SpanRun& run, Rows<kTiles>& rows) {
    ring_.wait_full();
    const std::uint32_t tile = memory_ + Shape::kQueries + tile_ * Shape::kTileBytes;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int step = 0; step < kQuerySteps; step += 2) {
        std::uint32_t q[4];
        load_matrices(q, tile + (8 * t + lane_ % 8) * Shape::kRowBytes + (2 * step + lane_ / 8) * 16);
        rows.q[t][step][0] = q[0], rows.q[t][step][1] = q[1];
        if (step + 1 < kQuerySteps) rows.q[t][step + 1][0] = q[2], rows.q[t][step + 1][1] = q[3];
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        rows.position[t][r] = run.position + (8 * t + 2 * (lane_ % 4) + r) / run.num_heads;
      }
    }
  }

  // kWhole: all rows see all keys of the span. Otherwise some row sees some key of these chunks.
  template <int kTiles, bool kWhole>
  __device__ __forceinline__ void do_span(Chunks chunks, const Rows<kTiles>& rows, int span, Partial<kTiles>& out) {
    float s[kTiles][kMine][4];
    add_keys<kTiles, kWhole>(chunks, rows, s);
    put_maxima<kTiles, kWhole>(span, chunks, rows, s);
    sync_users();  // the maxima of all warps are complete
    get_exponents<kTiles>(out);
    put_probabilities<kTiles, kWhole>(span, chunks, rows, s, out);
    sync_users();
    add_values<kTiles, kWhole>(chunks, out);
  }

  template <bool kWhole>
  static __device__ __forceinline__ bool skips(Chunks chunks, int chunk) {
    return !kWhole && (chunk < chunks.begin || chunk >= chunks.end);
  }

  template <int kTiles, bool kWhole>
  __device__ __forceinline__ void add_keys(Chunks chunks, const Rows<kTiles>& rows, float (&s)[kTiles][kMine][4]) {
    ring_.wait_full();
    const std::uint32_t keys = ring_.half(), by_rows = Piece<kHeadDim>::lane_by_rows(lane_);
#pragma unroll
    for (int c = 0; c < kMine; ++c) {
      const int chunk = warp_ + c * kDecodeWarps;
#pragma unroll
      for (int t = 0; t < kTiles; ++t) s[t][c][0] = s[t][c][1] = s[t][c][2] = s[t][c][3] = 0.0f;
      if (skips<kWhole>(chunks, chunk)) continue;
#pragma unroll
      for (int step = 0; step < kQuerySteps; ++step) {
        std::uint32_t k[4];
        load_matrices(k, Piece<kHeadDim>::address(keys + chunk * Piece<kHeadDim>::kBytes, by_rows, step));
#pragma unroll
        for (int t = 0; t < kTiles; ++t) mma(s[t][c], k, rows.q[t][step][0], rows.q[t][step][1]);
      }
    }
    ring_.leave();
  }

  // Writes the largest score of each row among the warp's keys.
  template <int kTiles, bool kWhole>
  __device__ __forceinline__ void put_maxima(int span, Chunks chunks, const Rows<kTiles>& rows,
                                             const float (&s)[kTiles][kMine][4]) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      float m[2] = {-infinity(), -infinity()};
#pragma unroll
      for (int c = 0; c < kMine; ++c) {
        const int chunk = warp_ + c * kDecodeWarps, key = span * kSpan + chunk * kKeyChunk + lane_ / 4;
        if (skips<kWhole>(chunks, chunk)) continue;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool sees = kWhole || visible_at(rows.position[t][j % 2], args_.window)(key + j / 2 * 8);
          m[j % 2] = larger(m[j % 2], sees ? s[t][c][j] : -infinity());
        }
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {
          m[r] = larger(m[r], __shfl_xor_sync(kWarp, m[r], distance));
        }
      }
      if (lane_ < 4) store_pair_at(maxima(t) + (warp_ * kDecodeRows + 2 * lane_) * 4, m[0], m[1]);
    }
  }

  template <int kTiles>
  __device__ __forceinline__ void get_exponents(Partial<kTiles>& out) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      out.m[t][0] = out.m[t][1] = -infinity();
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) {
        float m[2];
        load_pair_at(maxima(t) + (w * kDecodeRows + 2 * (lane_ % 4)) * 4, m[0], m[1]);
        out.m[t][0] = larger(out.m[t][0], m[0]);
        out.m[t][1] = larger(out.m[t][1], m[1]);
      }
      // Rounding is monotonic, so this is the largest of the rounded products.
      out.m[t][0] = weight_exponent(out.m[t][0], args_.scale);
      out.m[t][1] = weight_exponent(out.m[t][1], args_.scale);
    }
  }

  template <int kTiles, bool kWhole>
  __device__ __forceinline__ void put_probabilities(int span, Chunks chunks, const Rows<kTiles>& rows,
                                                    const float (&s)[kTiles][kMine][4],
                                                    const Partial<kTiles>& out) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const WeightLine lines[2] = {weight_line(args_.scale, out.m[t][0]), weight_line(args_.scale, out.m[t][1])};
#pragma unroll
      for (int c = 0; c < kMine; ++c) {
        const int chunk = warp_ + c * kDecodeWarps, key = span * kSpan + chunk * kKeyChunk + lane_ / 4;
        if (skips<kWhole>(chunks, chunk)) continue;
        float w[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          w[j] = probability(s[t][c][j], lines[j % 2]);
          if (!kWhole && !visible_at(rows.position[t][j % 2], args_.window)(key + j / 2 * 8)) w[j] = 0.0f;
        }
        const std::uint32_t to = probabilities(t) + chunk * kKeyChunk * 16 + lane_ * 4;
        store_word_at(to, pack(w[0], w[1]));
        store_word_at(to + 8 * 16, pack(w[2], w[3]));
      }
    }
  }

  // Computes O of the warp's part of head_dim. Every warp computes the sums.
  template <int kTiles, bool kWhole>
  __device__ __forceinline__ void add_values(Chunks chunks, Partial<kTiles>& out) {
    constexpr int kSteps = Partial<kTiles>::kSteps;
    ring_.wait_full();
    const std::uint32_t values = ring_.half(), by_units = Piece<kHeadDim>::lane_by_units(lane_);
    const std::uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
    float sums[kTiles][4] = {};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) out.o[t][i][0] = out.o[t][i][1] = out.o[t][i][2] = out.o[t][i][3] = 0.0f;
    }
#pragma unroll
    for (int pair = 0; pair < kSpanChunks; pair += 2) {
      std::uint32_t p[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        load_matrices_transposed(p[t], probabilities(t) + (pair * kKeyChunk + lane_) * 16);
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (skips<kWhole>(chunks, pair + c)) continue;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
          if (!has(i)) continue;
          std::uint32_t v[4];
          load_matrices_transposed(
              v, Piece<kHeadDim>::address(values + (pair + c) * Piece<kHeadDim>::kBytes, by_units, step_of(i)));
#pragma unroll
          for (int t = 0; t < kTiles; ++t) mma(out.o[t][i], v, p[t][2 * c], p[t][2 * c + 1]);
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) mma(sums[t], ones, p[t][2 * c], p[t][2 * c + 1]);
      }
    }
    ring_.leave();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      out.sum[t][0] = checked_sum(sums[t][0], out.m[t][0]);
      out.sum[t][1] = checked_sum(sums[t][1], out.m[t][1]);
    }
  }

  template <int kTiles>
  __device__ __forceinline__ void fold(Partial<kTiles>& left, const Partial<kTiles>& right) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const MergeFactors w = merge_factors(left.m[t][r], right.m[t][r]);
        left.sum[t][r] = merged(left.sum[t][r], right.sum[t][r], w);
        left.m[t][r] = w.m;
#pragma unroll
        for (int i = 0; i < Partial<kTiles>::kSteps; ++i) {
          left.o[t][i][r] = merged(left.o[t][i][r], right.o[t][i][r], w);
          left.o[t][i][2 + r] = merged(left.o[t][i][2 + r], right.o[t][i][2 + r], w);
        }
      }
    }
  }

  // Writes to the partials' rows from `first` on.
  template <int kTiles>
  __device__ __forceinline__ void write_partial(int first, int num_rows, const Partial<kTiles>& partial) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 8 * t + 2 * (lane_ % 4) + r;
        if (row >= num_rows) continue;
        float* const to = args_.partials + (std::int64_t{first} + row) * kHeadDim + lane_ / 4;
#pragma unroll
        for (int i = 0; i < Partial<kTiles>::kSteps; ++i) {
          if (!has(i)) continue;
          to[16 * step_of(i)] = partial.o[t][i][r];
          to[16 * step_of(i) + 8] = partial.o[t][i][2 + r];
        }
        if (warp_ == 0 && lane_ < 4) args_.partial_stats[first + row] = {partial.m[t][r], partial.sum[t][r]};
      }
    }
  }

  template <int kTiles>
  __device__ __forceinline__ void write_out(const SpanRun& run, const Partial<kTiles>& partial) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 8 * t + 2 * (lane_ % 4) + r, token = row / run.num_heads, head = row - token * run.num_heads;
        if (row >= run.num_tokens * run.num_heads) continue;
        const float inverse_of_sum = inverse(partial.sum[t][r]);
        Bf16Bits* const to = args_.out + (run.row + token) * args_.out_row_stride +
                             (run.head + head) * args_.out_head_stride + lane_ / 4;
#pragma unroll
        for (int i = 0; i < Partial<kTiles>::kSteps; ++i) {
          if (!has(i)) continue;
          to[16 * step_of(i)] = to_bf16(normalised(partial.o[t][i][r], inverse_of_sum));
          to[16 * step_of(i) + 8] = to_bf16(normalised(partial.o[t][i][2 + r], inverse_of_sum));
        }
      }
    }
  }

  // Returns the warp's i-th step; a warp may have fewer steps.
  __device__ __forceinline__ int step_of(int i) const {
    return Partial<1>::kAlike ? warp_ * Partial<1>::kSteps + i : warp_ + i * kDecodeWarps;
  }
  __device__ __forceinline__ bool has(int i) const {
    return Partial<1>::kAlike || step_of(i) < Partial<1>::kAll;
  }
  __device__ __forceinline__ std::uint32_t maxima(int tile) const {
    return memory_ + Shape::kMaxima + tile * 32;
  }
  __device__ __forceinline__ std::uint32_t probabilities(int tile) const {
    return memory_ + Shape::kProbabilities + tile * Shape::kColumnsBytes;
  }

  const SpanArgs& args_;
  DecodeRing<kHeadDim, kCache>& ring_;
  const std::uint32_t memory_;
  const int warp_, lane_;
  int tile_ = 1;
};

// Writes out = 0 for rows without keys.
__device__ inline void write_zeros(const SpanArgs& args, const SpanRun& run) {
  const int units = args.layout.head_dim / 8;
  const int heads = run.num_heads * units, all = run.num_tokens * heads;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kDecodeWarps * 32) {
    const int token = i / heads, head = i % heads / units, unit = i % units;
    Bf16Bits* out = args.out + (run.row + token) * args.out_row_stride + (run.head + head) * args.out_head_stride;
    *reinterpret_cast<uint4*>(out + unit * 8) = uint4{0, 0, 0, 0};
  }
}

// Computes a block's runs. Called by the warps that use the ring.
template <int kHeadDim, SpanCache kCache>
__device__ __forceinline__ void do_own_spans(const SpanArgs& args, const SpanRun* run, const SpanRun* end,
                                             DecodeRing<kHeadDim, kCache>& ring, std::uint32_t memory) {
  OwnWorker<kHeadDim, kCache> self(args, ring, memory);
  if (run == end) return;
  SpanRun next = *run;
#pragma unroll 1
  while (run != end) {
    const SpanRun current = next;
    if (++run != end) next = *run;
    if (current.span_begin == current.span_end) {
      write_zeros(args, current);
    } else {
      self.do_run(current);
    }
  }
}

}  // namespace mortise::cuda::span
