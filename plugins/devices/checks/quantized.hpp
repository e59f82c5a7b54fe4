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
constexpr std::int64_t kMxfp4Group = 32;
constexpr std::int64_t kBlock32Group = 32;  // of float weights that the device quantises

// A weight [n, k]: floats that the device quantises, or else values of a checkpoint, all of one format and order.
struct QuantizedSource {
  std::vector<SourceTensor> floats;
  std::vector<mortise_quantized_matrix> matrices;  // the checkpoint's own values: integers, or numbers of value_type
  std::int64_t n, k;
  std::int64_t group_size;    // columns that share a scale; k if all do
  const std::int32_t* order;  // [k] a permutation of 0 .. k - 1; null: columns keep their order
  // 0: integers; MORTISE_F8_E4M3, in groups of kFp8Group or whole rows; MORTISE_F4_E2M1, in groups of kMxfp4Group;
  // MORTISE_I8_BLOCK32, floats in groups of kBlock32Group
  std::int32_t value_type;
  // Of MORTISE_I8_BLOCK32 in `matrices`.
  std::int32_t zero;
  bool has_minima, f16_scales;
};

// Throws Failure(INVALID_ARGUMENT) for a source that no device serves. REQUIRES: source.bits is not 0.
QuantizedSource read_quantized_source(const mortise_weight_source& source);

// Throws Failure(INVALID_ARGUMENT) if one of the E4M3 values [rows, k] is NaN. `first_row`: of the weight, for the
// message.
void refuse_fp8_nan(const std::uint8_t* values, std::int64_t rows, std::int64_t k, std::int64_t first_row);

// Throws Failure(INVALID_ARGUMENT) if a scale of MXFP4 weights [rows, groups] is no power of two from 2^-127 to 2^125:
// a product with it would not have the bits of the widened weights. `first_row` as above.
void refuse_mxfp4_scales(const float* scales, std::int64_t rows, std::int64_t groups, std::int64_t first_row);

// Throws the Failure of a float weight that is NaN or infinite, which MXFP4 cannot hold.
[[noreturn]] void refuse_mxfp4_row(std::int64_t row);

}  // namespace mortise
