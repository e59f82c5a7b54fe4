// plugins/devices/checks/quantized.hpp: what prepare_weight gets for a weight that is kept in 8 or 4 bits
// (docs/numerics.md, "Quantised linear", says what there is).
#pragma once

#include <cstdint>
#include <vector>

#include "devices/checks/source_tensors.hpp"
#include "mortise/device.h"

namespace mortise {

// No group is longer: 2 * 255 * 127 * 2^15 < 2^31, so no sum of a group wraps.
constexpr std::int64_t kMaxQuantizedGroup = 32768;
constexpr std::int64_t kFp8Group = 128;  // columns of an E4M3 weight that share a scale, if it has groups

// A weight [n, k]: floats that the device quantises, or else values of a checkpoint, all of one format and order.
struct QuantizedSource {
  std::vector<SourceTensor> floats;
  std::vector<mortise_quantized_matrix> matrices;  // the checkpoint's own values: integers, or E4M3 if fp8
  std::int64_t n, k;
  std::int64_t group_size;    // columns that share a scale; k if all do
  const std::int32_t* order;  // [k] a permutation of 0 .. k - 1; null: columns keep their order
  bool fp8;                   // values are E4M3, in groups of kFp8Group or whole rows
};

// Throws Failure(INVALID_ARGUMENT) for a source that no device serves. REQUIRES: source.bits is not 0.
QuantizedSource read_quantized_source(const mortise_weight_source& source);

// Throws Failure(INVALID_ARGUMENT) if one of the E4M3 values [rows, k] is NaN. `first_row`: of the weight, for the
// message.
void refuse_fp8_nan(const std::uint8_t* values, std::int64_t rows, std::int64_t k, std::int64_t first_row);

}  // namespace mortise
