// plugins/kernels/cpu/span/span.hpp: attention over a paged KV cache, divided into spans of keys at absolute positions
// (docs/numerics.md, "Attention").
//
//   out[r, h] = softmax_t(scale * q[r, h] . K[t]) V[t]      t: the keys that row r sees
//   q, out    bf16 or f32 [rows, heads, head_dim]           with strides for rows and heads
//
// A unit of work is some rows of one sequence with the query heads of one KV head, and a range of spans. It can also be
// rows of several sequences that hold those spans in the same blocks.
// Order: each span gives a partial (maximum, sum, O) that depends on the row alone; partials merge from left to right.
// So the bits of a row are the same in any unit.
//
// The KV cache of one block, one layer and one KV head; a key group is 16 tokens, a pair two neighbours:
//   K  [block_size / 16] key groups of [key_depth / 2][16 tokens][2]   bf16: pairs along head_dim, then zeros
//                                   or [key_depth][16 tokens]          f32
//   V  [block_size / 2][value_width][2]                                bf16: pairs of tokens
//   or [block_size][value_width]                                       f32
// and in int8 or E4M3, for models of either type, with the f32 scales of each token after K and V:
//   K  [block_size / 16] key groups of [key_depth][16 tokens], V [block_size][value_width], scales of K and of V
//   [block_size]
// Blocks are contiguous, each [layer][KV head], so a block is copied with one memcpy. Both products read rows of 64
// bytes, which AMX loads in place (bytes are converted first). V in the cache is always finite (docs/numerics.md, "What
// is written"), and memory starts as zeros. A depth tile may therefore hold tokens that a row does not see, of this
// sequence or of an earlier one: with P = 0 they add zeros.
//
// Cost: a decode unit is memory bound and reads each key and value once for all its heads; a prefill unit is compute
// bound.
// Errors: none; the caller checks shapes. Sources: online softmax, arXiv:1805.02867; paged KV, arXiv:2309.06180.
// Oracle: reference/span.hpp, bitwise (span_test.cpp).
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::int32_t kSpan = 256;      // keys in a span; part of the numerics id
constexpr std::int32_t kKeyGroup = 16;   // tokens in a key group
constexpr std::int32_t kSpanRows = 32;   // the most rows times heads of a strip, computed at once: two AMX tiles
constexpr std::int32_t kUnitRows = 128;  // the most rows times heads of a unit; they share prepared K and V
constexpr std::int32_t kMaxHeadDim = 256;

struct KvLayout {
  std::int32_t element_bytes;  // 1: int8 or E4M3, 2: bf16, 4: f32
  std::int32_t num_layers, num_kv_heads, head_dim, block_size;
  std::int32_t key_depth;    // head_dim, rounded up to 32 but for f32
  std::int32_t value_width;  // head_dim, rounded up to 16
  std::int32_t group_shift;  // log2 of the key groups in a block
  // In elements.
  std::size_t value_offset;                          // from a head's K to its V
  std::size_t key_scale_offset, value_scale_offset;  // from a head's K to its scales; for int8 and E4M3
  std::size_t head_elements, layer_elements, block_elements;
};

// REQUIRES: head_dim a multiple of 8 up to kMaxHeadDim; block_size 16, 32, 64 or 128; element_bytes 1, 2 or 4.
KvLayout make_kv_layout(std::int32_t element_bytes, std::int32_t num_layers, std::int32_t num_kv_heads,
                        std::int32_t head_dim, std::int32_t block_size);

// Partials in memory. Each row and head has a record of record_floats() floats; the heads of a row are contiguous.
// Partial n of a unit begins at `records` + n * stride with its first row and head. A partial covers one span or
// several merged spans; partials are in order from left to right.
struct SpanPartials {
  float* records;
  std::ptrdiff_t stride;
  std::int32_t count;
};

// O, maximum and sum, padded to whole cache lines, because two threads may write neighbouring records. Sum 0: the row
// sees no key.
constexpr std::size_t record_floats(std::int32_t value_width) {
  return static_cast<std::size_t>(value_width) + 16;
}

// Strides are in elements; q and out have the model's type.
struct SpanUnit {
  const void* q;  // first row and head; for gathered rows the row from which `rows` counts
  std::ptrdiff_t q_row_stride, q_head_stride;
  void* out;
  std::ptrdiff_t out_row_stride, out_head_stride;
  // num_heads <= kSpanRows, num_rows * num_heads <= kUnitRows; all heads share one KV head.
  std::int32_t num_rows, num_heads;
  std::int32_t position;  // of the first row; the following rows are at the next positions
  // For gathered rows, of any sequences: their places and positions [num_rows]. Null: the rows are consecutive.
  const std::int32_t *rows, *positions;
  std::int32_t last_position;  // gathered rows: their largest position; `position` is the smallest
  std::int32_t seq_len;        // keys 0 .. seq_len - 1 are in the cache; 0: out = 0
  std::int32_t window;         // a row at p sees p - window + 1 .. p; 0: 0 .. p
  float scale;                 // attention scale * log2(e), see span_scale()
  const void* kv;              // the cache at this layer and KV head, block 0
  const KvLayout* layout;
  const std::int32_t* block_table;  // block table of the sequence
  std::int32_t first_span, end_span;
  const SpanUnit* next;  // the unit that this thread computes next, to prefetch it; may be null
  // Partials of the keys before first_span [num_prior], which `attend` merges first.
  const SpanPartials* prior;
  std::int32_t num_prior;
  SpanPartials partials;  // where `fold` and `partial` write
};

// scale * log2(e), computed in double, rounded once.
float span_scale(float attention_scale);

// Working memory of one thread for one unit. 64-byte aligned; the contents need not be initialised.
struct alignas(64) SpanScratch {
  float q[kUnitRows * kMaxHeadDim];
  float scores[kSpanRows * kSpan];                     // the probabilities replace the scores
  float maxima[kSpanRows * 16], sums[kSpanRows * 16];  // on AMX: one of each per lane
  float tile[32 * kMaxHeadDim];                        // a widened depth tile of K or V
  float span[2 * kSpanRows + kSpanRows * kMaxHeadDim];
  float total[kUnitRows * 2 * kSpanRows + kUnitRows * kMaxHeadDim];  // enough for strips of a single row
  // For AMX: tiles that must be contiguous, and bytes converted to bf16. For VDPBF16PS: queries and probabilities.
  std::uint16_t keys[kSpan * kMaxHeadDim], values[kSpan * kMaxHeadDim];
  float key_scales[kSpan], value_scales[kSpan];  // for a cache in int8 or E4M3
};

// Writes K and V of rows to their slots (slot = block * block_size + offset).
struct KvWrite {
  const void* k;  // [num_rows][num_kv_heads][head_dim]
  std::ptrdiff_t k_row_stride, k_head_stride;
  const void* v;
  std::ptrdiff_t v_row_stride, v_head_stride;
  std::int32_t num_rows;
  const std::int64_t* slots;  // [num_rows]
  void* kv;                   // the cache at this layer, block 0
  const KvLayout* layout;
};

// One table for each type of the model (bf16 or f32) and of the cache (the model's type, int8 or E4M3).
struct SpanKernels {
  // Merges the prior partials and all spans in [first_span, end_span), which may be none, from left to right, and
  // writes `out`. REQUIRES: the rows see no other span.
  void (*attend)(const SpanUnit& unit, SpanScratch& scratch);
  // Folds the same spans into one partial, which it writes. REQUIRES: the rows see no span before first_span.
  void (*fold)(const SpanUnit& unit, SpanScratch& scratch);
  // Writes the partial of each span in [first_span, end_span).
  void (*partial)(const SpanUnit& unit, SpanScratch& scratch);
};

//   K = k, V = v;  if any element of v's head is not finite: K = NaN and V = +0 (docs/numerics.md, "What is written")
//   cache in int8 or E4M3: each head of K and V as bytes with one f32 scale (docs/numerics.md, "A cache in int8", "A
//   cache in FP8")
// Order: a token and head do not depend on any other; nothing is summed.
// Cost: memory bound, reads k and v from memory once. Errors: none; the caller checks slots.
// Oracle: span_written of reference/span.hpp and, for bytes, the scalar quantisation, bitwise (span_test.cpp).
struct KvWriteKernels {
  // Threads may write different rows at the same time: no byte of another slot is written.
  void (*bf16)(const KvWrite& write);
  void (*f32)(const KvWrite& write);
  // Quantises k and v of that type, each head of a token with its own scale.
  void (*bf16_int8)(const KvWrite& write);
  void (*f32_int8)(const KvWrite& write);
  void (*bf16_fp8)(const KvWrite& write);
  void (*f32_fp8)(const KvWrite& write);
};

}  // namespace mortise::cpu
