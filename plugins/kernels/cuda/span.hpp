// span.hpp: attention over a paged KV cache in bf16 on the GPU, cut into spans of keys at absolute positions
// (docs/numerics.md, "Attention on CUDA"). Shared by paged and whatever else reads the same cache.
//
//   out[r, h] = softmax_t(scale * q[r, h] . K[t]) V[t]      t: the keys that row r sees
//
// A **tile** is some rows of one sequence (rows = tokens times query heads of one kv head: row i is token i /
// num_heads, head i % num_heads). A **run** is a tile with a range of spans. Each span gives a partial (maximum, sum,
// O) that depends on the row alone; partials merge from left to right. Whoever computes what, a row's bits are those of
// reference/span.cu.
//
// The cache of one block, one layer and one kv head is K, then V, each
//   [block_size / 8][head_dim / 64][8 tokens][64]   where the 16-byte unit u (of 8) of token t lies at u ^ (t % 8)
// Blocks lie one after the other, in each [layer][kv head]. So 16 tokens are one piece of 32 * head_dim bytes that goes
// to shared memory as it is, where ldmatrix reads it without bank conflicts; and it is what wgmma calls 128-byte
// swizzle, for K (its rows) as for V (its columns).
// V in the cache is always finite (docs/numerics.md, "What is written"), and memory is zero at first. So a piece may
// hold tokens that a row does not see, of this sequence or of an earlier one: with P = 0 they add zeros.
// Sources: online softmax, arXiv:1805.02867; paged KV, arXiv:2309.06180; tiles of FlashAttention-2, arXiv:2307.08691.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

#if !defined(MORTISE_CUDA_SPAN)
#define MORTISE_CUDA_SPAN 128
#endif
constexpr std::int32_t kSpan = MORTISE_CUDA_SPAN;  // keys; part of the numerics id
constexpr std::int32_t kKeyChunk = 16;             // keys of one step of the tensor cores
constexpr std::int32_t kSpanChunks = kSpan / kKeyChunk;
constexpr std::int32_t kDecodeRows = 16;    // of a tile of the decode kernel: one mma
constexpr std::int32_t kSharedRows = 64;    // of a tile of shared spans: one wgmma
constexpr std::int32_t kPrefillRows = 128;  // of a tile of the prefill kernel: two wgmma
constexpr std::int32_t kDecodeWarps =
    4;  // of a block of the decode kernel, which is one worker; one more brings K and V
constexpr std::int32_t kDecodeBlocksPerSm = 2;

using Bf16Bits = std::uint16_t;

struct SpanLayout {
  std::int32_t num_layers, num_kv_heads, head_dim, block_size;
  std::int32_t block_shift;                                   // log2(block_size)
  std::size_t head_elements, layer_elements, block_elements;  // K and V of a head, a layer, all layers of one block
};

// REQUIRES: head_dim 64 or 128; block_size a power of two from 16 on.
SpanLayout make_span_layout(std::int32_t num_layers, std::int32_t num_kv_heads, std::int32_t head_dim,
                            std::int32_t block_size);

// Element of K (V: block_size * head_dim further) of one kv head of a block.
constexpr std::int32_t span_offset(std::int32_t head_dim, std::int32_t token, std::int32_t d) {
  return token / 8 * 8 * head_dim + d / 64 * 512 + token % 8 * 64 + ((d / 8 % 8) ^ (token % 8)) * 8 + d % 8;
}

// Spans [span_begin, span_end) of a tile for one kv head. A run without spans is padding: out = 0.
struct alignas(16) SpanRun {
  std::int32_t table;     // index in block_table of the sequence's first entry
  std::int32_t row;       // of the batch: the first token's
  std::int32_t position;  // of that token; the next follow
  std::int16_t num_tokens, num_heads;
  std::int16_t head, kv_head;  // `head`: the first query head, of all
  std::int32_t span_begin, span_end;
  // -1: the tile's first to last span, folded, and out is written. Else partials are written from this row of partials
  // on: one, folded, if the run begins with the first span that its rows see, otherwise one a span.
  std::int32_t partial;
};
static_assert(sizeof(SpanRun) == 32);

// A row of a tile of shared spans: a query head of a token of any sequence that has those spans in the same blocks. It
// sees them all, but for a sliding window. Its first partial of this tile is row partial + kv_head * kv_head_stride of
// the partials; the next are partial_stride apart.
struct SharedRow {
  std::int32_t row;       // of the batch
  std::int32_t position;  // of its token
  std::int32_t head;      // among the query heads of a kv head
  std::int32_t partial, partial_stride, kv_head_stride;
};

// Spans [span_begin, span_end) of up to kSharedRows rows for one kv head; none of the rows sees a key before those of
// its group, or earlier runs have them.
struct alignas(16) SharedRun {
  std::int32_t table;                // index in block_table of the first entry of a sequence that has the spans
  std::int32_t first_row, num_rows;  // of the list of SharedRow
  std::int32_t kv_head;
  std::int32_t span_begin, span_end;
  std::int32_t partial;  // which of the rows' partials is the first that this run writes
  std::int32_t folds;    // 1: the rows see nothing before, so that the spans fold into one partial; 0: one a span
};
static_assert(sizeof(SharedRun) == 32);

// Folds `count` partials of a tile and writes out. Partial i of row r of the tile is row partial + i * rows + r.
struct SpanMerge {
  std::int32_t row;
  std::int16_t num_tokens, num_heads;
  std::int32_t head;
  std::int32_t partial;
  std::int32_t count;
};
struct SpanMergeCounts {
  std::int32_t merges, parts;  // all have that many parts or fewer
};
// A part is a warp's: of more than kFewPartials 32 columns of a row, else a row, or several rows whose partials
// are together kPartialsOfAPart or fewer.
constexpr std::int32_t kFewPartials = 48, kPartialsOfAPart = 16;
constexpr std::int32_t span_rows_of_a_part(std::int32_t num_partials) {
  return num_partials > kPartialsOfAPart / 2 ? 1 : num_partials > kPartialsOfAPart / 4 ? 2 : 4;
}
constexpr std::int32_t span_merge_parts(const SpanMerge& merge, std::int32_t head_dim) {
  const std::int32_t rows = merge.num_tokens * merge.num_heads;
  if (merge.count > kFewPartials) return rows * (head_dim / 32);
  const std::int32_t of_a_part = span_rows_of_a_part(merge.count);
  return (rows + of_a_part - 1) / of_a_part;
}

// What all kernels of one layer get. Strides are in elements; q rows and heads begin at multiples of 16 bytes.
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
  float* partials;                 // [rows][head_dim] O, then for each row maximum and sum
  float2* partial_stats;
};

// scale * log2(e), computed in double, rounded once.
float span_scale(float attention_scale);

// Spans that several sequences share, in device memory: block b has runs block_begin[b] .. block_begin[b + 1].
struct SharedWork {
  const std::int32_t* block_begin;
  const SharedRun* runs;
  const SharedRow* rows;
  std::int32_t num_blocks;  // 0: no block has any
};

// The work of the decode kernel, in device memory: block b has runs worker_begin[b] .. worker_begin[b + 1], after those
// of shared spans.
struct SpanWork {
  const std::int32_t* worker_begin;
  const SpanRun* runs;
  std::int32_t num_blocks;
  SharedWork shared;
};

// All others launch on `stream` and return cudaGetLastError().
// The two _prepare functions come first, once per process and device: they ask for more than 48 KiB of shared memory.
cudaError_t span_decode_prepare();
cudaError_t span_prefill_prepare();
// Tiles of up to kDecodeRows rows, and shared tiles. Long contexts are dealt to several workers, by whole spans.
cudaError_t span_decode(const SpanArgs& args, const SpanWork& work, cudaStream_t stream);
// Tiles of up to kPrefillRows rows; runs begin with the tile's first span and partial is -1. At most `num_blocks`
// blocks take them in turn, of which a multiprocessor has one at a time: best one each, and the longest runs first.
cudaError_t span_prefill(const SpanArgs& args, const SpanRun* runs, std::int32_t num_runs, std::int32_t num_blocks,
                         cudaStream_t stream);
// `counts` lies in device memory, so that the launch does not depend on it; num_blocks is what it is launched with.
cudaError_t span_merge(const SpanArgs& args, const SpanMerge* merges, const SpanMergeCounts* counts,
                       std::int32_t num_blocks, cudaStream_t stream);

// Norms (optional), rotates (optional), writes K and V to their slots, or NaN and zeros if V is not finite; q is
// changed in place.
struct SpanAppend {
  Bf16Bits* q;
  std::int64_t q_row_stride, q_head_stride;
  const Bf16Bits* k;
  std::int64_t k_row_stride, k_head_stride;
  const Bf16Bits* v;
  std::int64_t v_row_stride, v_head_stride;
  std::int32_t num_tokens, num_heads;
  const std::int32_t* positions;
  const std::int64_t* slots;  // negative: not written
  const float *cos, *sin;     // [positions, rotary_dim / 2]; null: no rope
  std::int32_t rotary_dim;
  bool interleaved;
  const Bf16Bits *q_norm, *k_norm;  // [head_dim]; null: none
  float eps;
  Bf16Bits* kv;  // the cache at this layer, block 0
  SpanLayout layout;
};
cudaError_t span_append(const SpanAppend& append, cudaStream_t stream);

}  // namespace mortise::cuda
