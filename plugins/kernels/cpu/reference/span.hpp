// reference/span.hpp: attention of one row as docs/numerics.md says it, one operation a line: the oracle that the span
// kernels are compared with, bit by bit.
#pragma once

#include <cstddef>

namespace mortise::cpu::reference {

struct SpanRow {
  bool bf16;       // class: P and out are rounded to bf16, and q, k, v hold bf16 values
  const float* q;  // [head_dim]
  const float* k;  // [position + 1, head_dim], as written to the cache
  const float* v;  // [position + 1, head_dim]
  int head_dim;
  int position;
  int window;   // 0: none
  float scale;  // span_scale()
  // An int8 cache: k and v hold its integers, and these the scales [position + 1]. Null: none.
  const float* key_scales;
  const float* value_scales;
};

// Makes of a token's K and V [head_dim] what is written to the cache; an int8 cache quantises the result.
void span_written(float* k, float* v, int head_dim);

// out [head_dim]. REQUIRES: DenormalsOff.
void span_row(const SpanRow& row, float* out);

// The partial of one span; false if the row sees nothing of it. o [head_dim].
bool span_partial(const SpanRow& row, int span, float* max, float* sum, float* o);

}  // namespace mortise::cpu::reference
