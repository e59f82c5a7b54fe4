// plugins/kernels/cuda/span.hpp: attention over a paged KV cache in bf16 on the GPU, divided into spans of keys at
// absolute positions (docs/numerics.md, "Attention on CUDA").
//
//   out[r, h] = softmax_t(scale * q[r, h] . K[t]) V[t]      t: the keys that row r sees
// Shapes:
//   q, out    bf16 [tokens, heads, head_dim]                with strides for tokens and heads
//   head_dim  one of kSpanHeadDims; block_size a power of two from 16 on; heads a multiple of the KV heads
//
// A **tile** is some rows of one sequence for one KV head. Row i of a tile is token i / num_heads and query head
// i % num_heads, where num_heads is SpanRun::num_heads. A **run** is a tile with a range of spans.
// Order: each span gives a partial (exponent m, sum, O) that depends on the row alone; partials merge from left to
// right. So the bits of a row are the same however spans are divided among runs and kernels.
//
// The cache of one block, one layer and one KV head is K, then V, each
//   [block_size / 8][head_dim / C][8 tokens][C]   C = span_columns(head_dim): 64, 32 or 16
// where the 16-byte unit u (of C / 8) of token t lies at u ^ (t % 8 / (64 / C)). Blocks are contiguous, each
// [layer][KV head]. So 16 tokens are one piece of 32 * head_dim bytes, which is copied to shared memory unchanged.
// There ldmatrix reads it without bank conflicts, and wgmma reads it as a swizzle of 2 C bytes, K by rows and V by
// columns. V in the cache is always finite (docs/numerics.md, "What is written"), and memory starts as zeros. A piece
// may therefore hold tokens that a row does not see, of this sequence or of an earlier one: with P = 0 they add zeros.
// In a cache in int8 or E4M3, each piece is replaced by 16 tokens of head_dim bytes, followed by a scale (f32) for each
// token.
//
// Cost: decode is memory bound and reads each key and value once per tile; prefill is compute bound.
// Launches on `stream`, never waits.
// Errors: cudaGetLastError() of the launch; the caller checks shapes.
// Sources: online softmax, arXiv:1805.02867; paged KV, arXiv:2309.06180; tiles of FlashAttention-2, arXiv:2307.08691.
// Oracle: reference/span.hpp, bitwise (tests/plugins/kernels/cuda/span_test.cpp).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

#if !defined(MORTISE_CUDA_SPAN)
#define MORTISE_CUDA_SPAN 128
#endif
constexpr std::int32_t kSpan = MORTISE_CUDA_SPAN;  // keys in a span; part of the numerics id
constexpr std::int32_t kKeyChunk = 16;             // keys in one step of the tensor cores
constexpr std::int32_t kSpanChunks = kSpan / kKeyChunk;
constexpr std::int32_t kDecodeRows = 16;    // rows of a tile of the decode kernel: one mma
constexpr std::int32_t kSharedRows = 64;    // rows of a tile of shared spans: one wgmma
constexpr std::int32_t kPrefillRows = 128;  // rows of a tile of the prefill kernel: two wgmma
// The computing warps of a thread block of the decode kernel, which is one worker. One more warp requests K and V.
constexpr std::int32_t kDecodeWarps = 4;

constexpr std::int32_t kSpanHeadDims[] = {32, 64, 80, 96, 128, 192, 256};
constexpr bool is_span_head_dim(std::int32_t head_dim) {
  for (const std::int32_t served : kSpanHeadDims) {
    if (head_dim == served) return true;
  }
  return false;
}
// How many thread blocks of the decode kernel run on a multiprocessor at a time.
constexpr std::int32_t span_decode_blocks_per_sm(std::int32_t head_dim) {
  return head_dim > 128 ? 1 : 2;
}

using Bf16Bits = std::uint16_t;

enum class SpanCache { kBf16, kInt8, kFp8 };
// Whether the cache has a byte for each number, and scales.
constexpr bool in_bytes(SpanCache cache) {
  return cache != SpanCache::kBf16;
}

struct SpanLayout {
  std::int32_t num_layers, num_kv_heads, head_dim, block_size;
  SpanCache cache;
  std::int32_t block_shift;  // log2(block_size)
  // K and V of a head, a layer, all layers of one block, in units of 2 bytes.
  std::size_t head_elements, layer_elements, block_elements;
};

// REQUIRES: is_span_head_dim(head_dim); block_size a power of two from 16 on.
SpanLayout make_span_layout(std::int32_t num_layers, std::int32_t num_kv_heads, std::int32_t head_dim,
                            std::int32_t block_size, SpanCache cache = SpanCache::kBf16);

// K (or V) of 16 tokens of one KV head in the cache, in units of 2 bytes. Has no state.
template <int kHeadDim, SpanCache kCache>
struct CacheChunk {
  static constexpr std::int32_t kElements = in_bytes(kCache) ? 8 * kHeadDim + 32 : kKeyChunk * kHeadDim;
  // Returns the distance from the block's first token to `token`, a multiple of 16. With block_size as `token`: to the
  // first token's V.
  static constexpr std::int32_t offset(std::int32_t token) {
    return in_bytes(kCache) ? token / kKeyChunk * kElements : token * kHeadDim;
  }
};

// Returns how many columns of a head lie together: those of the widest swizzle that divides head_dim.
constexpr std::int32_t span_columns(std::int32_t head_dim) {
  return head_dim % 64 == 0 ? 64 : head_dim % 32 == 0 ? 32 : 16;
}

template <std::int32_t kColumns>
constexpr std::int32_t span_offset_of(std::int32_t head_dim, std::int32_t token, std::int32_t d) {
  return token / 8 * 8 * head_dim + d / kColumns * (8 * kColumns) + token % 8 * kColumns +
         ((d / 8 % (kColumns / 8)) ^ (token % 8 / (64 / kColumns))) * 8 + d % 8;
}
// Returns where an element of K lies in a block of one KV head. V is block_size * head_dim elements further on.
constexpr std::int32_t span_offset(std::int32_t head_dim, std::int32_t token, std::int32_t d) {
  return span_columns(head_dim) == 64   ? span_offset_of<64>(head_dim, token, d)
         : span_columns(head_dim) == 32 ? span_offset_of<32>(head_dim, token, d)
                                        : span_offset_of<16>(head_dim, token, d);
}

// Spans [span_begin, span_end) of a tile for one KV head. A run without spans is padding: out = 0.
struct alignas(16) SpanRun {
  std::int32_t table;     // index in block_table of the sequence's first entry
  std::int32_t row;       // the first token's row in the batch
  std::int32_t position;  // position of that token; the following tokens are at the next positions
  std::int16_t num_tokens, num_heads;
  std::int16_t head, kv_head;  // `head`: the first query head, counted over all KV heads
  std::int32_t span_begin, span_end;
  // -1: the run covers the whole tile; its spans are merged, and `out` is written. Otherwise the run writes partials
  // from this row on: one merged partial if it begins with the first span that its rows see, else one per span.
  std::int32_t partial;
};
static_assert(sizeof(SpanRun) == 32);

// A row of a tile of shared spans: a query head of a token of any sequence that has those spans in the same blocks. It
// sees all of them, except those outside a sliding window. Its first partial of this tile is row partial + kv_head *
// kv_head_stride; the next ones are partial_stride apart.
struct SharedRow {
  std::int32_t row;       // row of its token in the batch
  std::int32_t position;  // of its token
  std::int32_t head;      // among the query heads of a KV head
  std::int32_t partial, partial_stride, kv_head_stride;
};

// Spans [span_begin, span_end) of up to kSharedRows rows for one KV head. Keys before these spans are either seen
// by none of the rows, or covered by earlier runs.
struct alignas(16) SharedRun {
  std::int32_t table;                // index in block_table of the first entry of a sequence that has the spans
  std::int32_t first_row, num_rows;  // in the list of SharedRow
  std::int32_t kv_head;
  std::int32_t span_begin, span_end;
  std::int32_t partial;  // which of the rows' partials is the first that this run writes
  std::int32_t folds;    // 1: the spans are folded, as the rows see no key before them; 0: one partial per span
};
static_assert(sizeof(SharedRun) == 32);

// Merges `count` partials of a tile and writes `out`. Partial i of the tile's row r is row partial + i * rows + r.
struct SpanMerge {
  std::int32_t row;
  std::int16_t num_tokens, num_heads;
  std::int32_t head;
  std::int32_t partial;
  std::int32_t count;
};
struct SpanMergeCounts {
  std::int32_t merges, jobs;  // jobs: the most jobs of any merge
};
// A job is the work of one warp. With more than kFewPartials partials it is 32 columns of a row. Otherwise it is a
// slice of columns of a row, or of several rows that have kPartialsOfAJob partials or fewer together.
constexpr std::int32_t kFewPartials = 48, kPartialsOfAJob = 16;
constexpr std::int32_t span_rows_of_a_job(std::int32_t num_partials) {
  return num_partials > kPartialsOfAJob / 2 ? 1 : num_partials > kPartialsOfAJob / 4 ? 2 : 4;
}
// Slices of a row, of 128 columns or fewer.
constexpr std::int32_t span_merge_slices(std::int32_t head_dim) {
  return (head_dim + 127) / 128;
}
constexpr std::int32_t span_merge_jobs(const SpanMerge& merge, std::int32_t head_dim) {
  const std::int32_t rows = merge.num_tokens * merge.num_heads;
  if (merge.count > kFewPartials) return rows * ((head_dim + 31) / 32);
  const std::int32_t of_a_job = span_rows_of_a_job(merge.count);
  return (rows + of_a_job - 1) / of_a_job * span_merge_slices(head_dim);
}

// Arguments of all kernels of one layer. Strides are in elements; rows and heads of q begin at multiples of 16 bytes.
struct SpanArgs {
  const Bf16Bits* q;  // [tokens, heads, head_dim]
  std::int64_t q_row_stride, q_head_stride;
  Bf16Bits* out;
  std::int64_t out_row_stride, out_head_stride;
  const Bf16Bits* kv;               // the cache at this layer, block 0
  const std::int32_t* block_table;  // of the batch
  SpanLayout layout;
  std::int32_t heads_per_kv_head;  // query heads
  std::int32_t window;             // a row at p sees p - window + 1 .. p; 0: 0 .. p
  float scale;                     // attention scale * log2(e), see span_scale()
  float* partials;                 // O [rows][head_dim]; exponent and sum of each row are in partial_stats
  float2* partial_stats;
};

// scale * log2(e), computed in double, rounded once.
float span_scale(float attention_scale);

// Spans that several sequences share. In device memory; block b has the runs block_begin[b] .. block_begin[b + 1].
struct SharedWork {
  const std::int32_t* block_begin;
  const SharedRun* runs;
  const SharedRow* rows;
  std::int32_t num_blocks;  // 0: no block has any
};

// The work of the decode kernel. In device memory; block b has the runs worker_begin[b] .. worker_begin[b + 1], after
// its runs of shared spans.
struct SpanWork {
  const std::int32_t* worker_begin;
  const SpanRun* runs;
  std::int32_t num_blocks;
  SharedWork shared;
};

// Each function launches on `stream` and returns cudaGetLastError(), except the two _prepare functions. Call those
// first, once per process, device, head size and cache: they request more than 48 KiB of shared memory.
cudaError_t span_decode_prepare(std::int32_t head_dim, SpanCache cache = SpanCache::kBf16);
cudaError_t span_prefill_prepare(std::int32_t head_dim, SpanCache cache = SpanCache::kBf16);
// Computes attention for tiles of up to kDecodeRows rows, and for shared tiles. Long contexts are divided among several
// workers by whole spans.
cudaError_t span_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream);
// Computes attention for tiles of up to kPrefillRows rows. Each run begins with its tile's first span and has partial =
// -1. At most `num_blocks` blocks take the runs in turn; best is one per multiprocessor, with the longest runs first.
cudaError_t span_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                         cudaStream_t stream);
// Merges the partials of each tile, and writes out = fma(O, 1 / sum, 0) in bf16:
//   m' = max(m, m2);  left = 2^max(m - m', -126), right = 2^max(m2 - m', -126);  O = fma(O2, right, O * left), sum
//   likewise
// where (m, sum, O) is the result so far and (m2, sum2, O2) the next partial.
//   partials       f32 [rows, head_dim]   SpanMerge names the rows of a tile
//   partial_stats  float2 [rows]          exponent and sum
//   merges, counts in device memory       because a captured launch may not depend on their values
// Order: partials of a row from left to right, each operation in f32; columns and rows are independent.
// Cost: memory bound, reads each partial once. Errors: as above.
// Source: online softmax, arXiv:1805.02867. Oracle: a merge on the host, bitwise
// (tests/plugins/kernels/cuda/span_merge_test.cpp).
cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const SpanMergeCounts* counts,
                       std::int32_t num_blocks, cudaStream_t stream);

// Norms and rotates each head of q and k (both optional), and writes K and V to their slots. Changes q in place.
//   norm:   inv = 1 / sqrt(sum(x^2) / head_dim + eps);  x = round(weight * round(x * inv))
//   rope:   x0' = round(x0 cos - x1 sin),  x1' = round(x1 cos + x0 sin), for pairs as `interleaved` says
//   write:  K = k, V = v;  if any element of v's head is not finite: K = NaN and V = +0
//   cache in int8 or E4M3: each head of K and V as bytes with one f32 scale (docs/numerics.md, "A cache in int8")
// Order: that of kernels/cpu/rows/norm.hpp and rope.hpp: sixteen chains and a tree for the sum, rope without fma.
// Cost: memory bound, reads q, k and v once. Errors: as above; head_dim is one of kSpanHeadDims.
// Source: RMS norm, arXiv:1910.07467; rope, arXiv:2104.09864.
// Oracle: the scalar references of kernels/cpu, bitwise (tests/plugins/kernels/cuda/span_append_test.cpp).
struct SpanAppend {
  Bf16Bits* q;  // [num_tokens, num_heads, head_dim]; strides are in elements
  std::int64_t q_row_stride, q_head_stride;
  const Bf16Bits* k;  // [num_tokens, layout.num_kv_heads, head_dim]
  std::int64_t k_row_stride, k_head_stride;
  const Bf16Bits* v;  // like k
  std::int64_t v_row_stride, v_head_stride;
  std::int32_t num_tokens, num_heads;
  const std::int32_t* positions;  // [num_tokens]
  const std::int64_t* slots;      // [num_tokens]; negative: not written
  const float *cos, *sin;         // [positions, rotary_dim / 2]; null: no rope
  std::int32_t rotary_dim;
  bool interleaved;
  const Bf16Bits *q_norm, *k_norm;  // [head_dim]; null: none
  float eps;
  Bf16Bits* kv;  // the cache at this layer, block 0
  SpanLayout layout;
};
cudaError_t span_append(const SpanAppend& append, cudaStream_t stream);

}  // namespace mortise::cuda
