// runtime/conformance/quantized_product.hpp: products with weights that are quantised at load, as docs/numerics.md
// specifies them: every bit of cpu-int8/1, cpu-int8-block32/1 and cpu-fp8/1, and the weights of mxfp4/1.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace mortise::conformance {

using FloatRows = std::vector<std::vector<float>>;

// Returns one output for each row of the weight, without bias, in f32. REQUIRES: x is finite, and denormals are off.
using Product = std::function<std::vector<float>(const std::vector<float>& x)>;

Product int8_product(const FloatRows& weight);                           // one group a row
Product int4_product(const FloatRows& weight, std::int32_t group_size);  // asymmetric groups
Product block32_product(const FloatRows& weight, std::int32_t bits);     // groups of 32; with 4 bits they have minima
Product fp8_product(const FloatRows& weight);                            // one scale a row

// The numbers of weights that become MXFP4; finite, not denormal.
FloatRows mxfp4_rows(const FloatRows& weight);

}  // namespace mortise::conformance
