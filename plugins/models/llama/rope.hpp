// plugins/models/llama/rope.hpp: the rotary embedding's frequencies and the table that attention indexes by position.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llama/config.hpp"

namespace mortise::llama {

// result[i], i < head_dim / 2, is the angle by which pair i turns from one position to the next. Each step is rounded
// to f32 as in transformers (modeling_rope_utils.py), so this table differs from theirs only by the error of their
// libm.
std::vector<float> inverse_frequencies(const Rope& rope, int32_t head_dim);

// Rows begin .. end of the table: cos[(p - begin) * n + i] = cos(angle) * factor, angle = p * frequencies[i]; angle,
// cosine and product are rounded to f32. `factor`: Rope::attention_factor.
void fill_rope_rows(const std::vector<float>& frequencies, float factor, int64_t begin, int64_t end, float* cos,
                    float* sin);

}  // namespace mortise::llama
