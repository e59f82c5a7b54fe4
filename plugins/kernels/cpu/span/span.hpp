// span.hpp: attention over a paged KV cache, cut into spans of keys at absolute positions (docs/numerics.md,
// "Attention").
//
//   out[r, h] = softmax_t(scale * q[r, h] . K[t]) V[t]      t: the keys that row r sees
//
// A unit of work is a run of rows of one sequence with the query heads of one kv head, and a range of spans; or rows of
// several sequences that hold those spans in the same blocks. Whatever the units, a row's bits are those of the
// reference (reference/span.hpp): each span gives a partial result (maximum, sum, O) that depends on the row alone, and
// partials merge from left to right.
//
// The KV cache of one block, one layer and one kv head; a group is 16 tokens, a pair two neighbours:
//   K  [block_size / 16] groups of [key_depth / 2][16 tokens][2]   bf16: pairs along head_dim, zero from head_dim on
//                               or [key_depth][16 tokens]          f32
//   V  [block_size / 2][value_width][2]                            bf16: pairs of tokens
//   or [block_size][value_width]                                   f32
// and in int8, for models of either type, with the f32 scales of each token behind K and V:
//   K  [block_size / 16] groups of [key_depth][16 tokens], V [block_size][value_width], scales of K and of V
//   [block_size]
// V in the cache is always finite (docs/numerics.md, "What is written"), and memory is zero at first. So a tile may
// hold tokens that a row does not see, of this sequence or of an earlier one: with P = 0 they add zeros. Blocks lie one
// after the other, in each [layer][kv head]. So both products read rows of 64 bytes that serve AMX as they are (int8
// becomes the model's type on the way); memory is touched block by block, and copying a block is one memcpy. Sources:
// online softmax, arXiv:1805.02867; paged KV, arXiv:2309.06180.
#pragma once

#include "kernels/cpu/types.hpp"

namespace mortise::cpu {

constexpr std::int32_t kSpan = 256;      // keys; part of the numerics id
constexpr std::int32_t kKeyGroup = 16;   // tokens that lie together
constexpr std::int32_t kSpanRows = 32;   // rows times heads that are computed at once, at most: two AMX tiles
constexpr std::int32_t kUnitRows = 128;  // rows times heads of one unit, at most: they share what is made of K and V
constexpr std::int32_t kMaxHeadDim = 256;

struct KvLayout {
  std::int32_t element_bytes;  // 1: int8, 2: bf16, 4: f32
  std::int32_t num_layers, num_kv_heads, head_dim, block_size;
  std::int32_t key_depth;    // head_dim, rounded up to 32 for bf16 and int8
  std::int32_t value_width;  // head_dim, rounded up to 16
  std::int32_t group_shift;  // log2 of the groups in a block
  // In elements.
  std::size_t value_offset;                          // from a head's K to its V
  std::size_t key_scale_offset, value_scale_offset;  // and to their scales; int8 alone
  std::size_t head_elements, layer_elements, block_elements;
};

// REQUIRES: head_dim a multiple of 8 up to kMaxHeadDim; block_size 16, 32, 64 or 128; element_bytes 1, 2 or 4.
KvLayout make_kv_layout(std::int32_t element_bytes, std::int32_t num_layers, std::int32_t num_kv_heads,
                        std::int32_t head_dim, std::int32_t block_size);

// Partials in memory: a record of record_floats() for each row and head, the heads of a row after each other. Number n
// of a unit's first row and head is at `records` + n * stride. Each is of a span, or of several that have been merged;
// they follow each other from left to right.
struct SpanPartials {
  float* records;
  std::ptrdiff_t stride;
  std::int32_t count;
};

// O, maximum and sum, in whole cache lines: two threads may write neighbours. A sum of 0: the row sees nothing.
constexpr std::size_t record_floats(std::int32_t value_width) {
  return static_cast<std::size_t>(value_width) + 16;
}

// Strides are in elements; q and out have the model's type.
struct SpanUnit {
  const void* q;  // first row, first head; of gathered rows: the row that `rows` counts from
  std::ptrdiff_t q_row_stride, q_head_stride;
  void* out;
  std::ptrdiff_t out_row_stride, out_head_stride;
  // num_heads <= kSpanRows, num_rows * num_heads <= kUnitRows; all heads share one kv head.
  std::int32_t num_rows, num_heads;
  std::int32_t position;  // of the first row; the next rows follow
  // Gathered rows, of any sequences: where they are, and their positions [num_rows]; null: they follow each other.
  const std::int32_t *rows, *positions;
  std::int32_t last_position;  // gathered: the largest, as `position` is the smallest
  std::int32_t seq_len;        // keys 0 .. seq_len - 1 are written; 0: out = 0
  std::int32_t window;         // a row at p sees p - window + 1 .. p; 0: 0 .. p
  float scale;                 // attention scale * log2(e), see span_scale()
  const void* kv;              // the cache at this layer and kv head, block 0
  const KvLayout* layout;
  const std::int32_t* block_table;  // of the sequence
  std::int32_t first_span, end_span;
  const SpanUnit* next;  // what this thread will compute next, a hint for reading ahead; may be null
  // What the rows saw before first_span, [num_prior]: merged first. Of `attend` alone.
  const SpanPartials* prior;
  std::int32_t num_prior;
  SpanPartials partials;  // where `fold` and `partial` write
};

// scale * log2(e), computed in double, rounded once.
float span_scale(float attention_scale);

// What one thread needs while it computes a unit. 64-byte aligned; contents do not matter.
struct alignas(64) SpanScratch {
  float q[kUnitRows * kMaxHeadDim];
  float scores[kSpanRows * kSpan];                     // and the probabilities in their place
  float maxima[kSpanRows * 16], sums[kSpanRows * 16];  // AMX: of each lane
  float tile[32 * kMaxHeadDim];                        // a tile of K or V, widened
  float span[2 * kSpanRows + kSpanRows * kMaxHeadDim];
  float total[kUnitRows * 2 * kSpanRows + kUnitRows * kMaxHeadDim];  // for one row a part
  // AMX: tiles that it wants in one piece, and int8 as bf16.
  std::uint16_t keys[kSpan * kMaxHeadDim], values[kSpan * kMaxHeadDim];
  float key_scales[kSpan], value_scales[kSpan];  // int8
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

// One table for each type of the model, bf16 and f32, and of the cache: the model's, or int8.
struct SpanKernels {
  // Folds what is prior and then all spans in [first_span, end_span), which may be none, from left to right and writes
  // out. REQUIRES: the rows see no other span.
  void (*attend)(const SpanUnit& unit, SpanScratch& scratch);
  // The same, into one partial. REQUIRES: the rows see no span before.
  void (*fold)(const SpanUnit& unit, SpanScratch& scratch);
  // Writes the partial of each span in [first_span, end_span).
  void (*partial)(const SpanUnit& unit, SpanScratch& scratch);
};

struct KvWriteKernels {
  // Two threads may write different rows at the same time: no byte of another slot is written.
  void (*bf16)(const KvWrite& write);
  void (*f32)(const KvWrite& write);
  // From k and v of that type, each head with a scale of its own.
  void (*bf16_int8)(const KvWrite& write);
  void (*f32_int8)(const KvWrite& write);
};

}  // namespace mortise::cpu
