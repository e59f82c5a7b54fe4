// plugins/kernels/cpu/reference/span.hpp: the scalar form of span/span.hpp for one row (docs/numerics.md, "Attention").
// The span kernels equal it bit by bit.
#pragma once

#include <cstddef>

namespace mortise::cpu::reference {

struct SpanRow {
  bool bf16;       // q, k, v hold bf16 values; P and out are rounded to bf16
  bool pairs;      // the order of sums: pairs (attention-span256-pairs/1) or depth tiles (attention-span256/1)
  const float* q;  // [head_dim]
  const float* k;  // [position + 1, head_dim], as written to the cache
  const float* v;  // [position + 1, head_dim]
  int head_dim;
  int position;
  int window;   // 0: no sliding window
  float scale;  // span_scale()
  // For an int8 cache: the scales [position + 1]; k and v hold its integers. Null for any other cache.
  const float* key_scales;
  const float* value_scales;
};

// Replaces a token's K and V [head_dim] by the values that are written to the cache. An int8 cache quantises them
// afterwards.
void span_written(float* k, float* v, int head_dim);

// out [head_dim]. REQUIRES: DenormalsOff.
void span_row(const SpanRow& row, float* out);

// The partial of one span, o [head_dim]. Returns false if the row sees no key of the span.
bool span_partial(const SpanRow& row, int span, float* max, float* sum, float* o);

}  // namespace mortise::cpu::reference
