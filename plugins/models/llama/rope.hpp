// plugins/models/llama/rope.hpp: the rotary embedding's frequencies and the table that attention indexes by position.
#pragma once

#include <cstdint>
#include <vector>

#include "models/llama/config.hpp"

namespace mortise::llama {

// The angle of pair i grows by result[i] a position: [head_dim / 2]. Each step is rounded to f32 as transformers does
// (modeling_rope_utils.py), so that a table made here differs from its table by no more than its libm does.
std::vector<float> inverse_frequencies(const Rope& rope, int32_t head_dim);

// Rows begin .. end of the table: cos[(p - begin) * n + i] = cos(angle), angle = p * frequencies[i] rounded to f32.
void fill_rope_rows(const std::vector<float>& frequencies, int64_t begin, int64_t end, float* cos, float* sin);

}  // namespace mortise::llama
