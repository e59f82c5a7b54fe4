// plugins/devices/checks/weight.hpp: what checks need to know of a prepared weight, whose struct is each device's own.
#pragma once

#include <cstdint>
#include <string>

namespace mortise {

struct WeightShape {
  std::int32_t use = 0;    // MORTISE_WEIGHT_*; 0: there is no weight
  std::int32_t dtype = 0;  // the type that the product computes in
  std::int64_t n = 0, k = 0;
  std::int32_t bits = 0;        // 0: not quantised
  std::int32_t value_type = 0;  // 0: integers; MORTISE_F8_E4M3, MORTISE_F4_E2M1, MORTISE_I8_BLOCK32
};

// Returns the shape of a device's weight, which may be null.
template <typename Weight>
WeightShape shape_of(const Weight* weight) {
  return weight == nullptr ? WeightShape{} : weight->shape();
}

// "bf16 [4096, 512]", "int4 for bf16 [4096, 512]", "fp8 for ...", "mxfp4 for ...", "int8-block32 for ..."
std::string weight_text(const WeightShape& weight);

}  // namespace mortise
