#include "devices/checks/quantized.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

[[noreturn]] void invalid_source(const std::string& message) {
  invalid(kPrepareWeight, message);
}

std::string format_text(std::int32_t bits, std::int32_t group_size, std::int32_t value_type) {
  const char* const of = value_type == MORTISE_F8_E4M3      ? " of E4M3"
                         : value_type == MORTISE_F4_E2M1    ? " of E2M1"
                         : value_type == MORTISE_I8_BLOCK32 ? " for blocks of 32"
                                                            : "";
  return std::to_string(bits) + " bits" + of + " in groups of " + std::to_string(group_size);
}

std::vector<mortise_quantized_matrix> read_matrices(const mortise_weight_source& source) {
  if (source.num_parts < 1) invalid_source("there are no parts");
  std::vector<mortise_quantized_matrix> parts;
  for (int i = 0; i < source.num_parts; ++i) {
    const std::string name = "quantised part " + std::to_string(i);
    if (source.quantized[i] == nullptr) invalid_source(name + " is missing");
    parts.push_back(known(source.quantized[i]));
    const mortise_quantized_matrix& part = parts.back();
    if (part.n < 1 || part.k < 1 || part.read == nullptr) invalid_source(name + " is empty");
    const int32_t whole = part.group_size >= part.k ? 0 : part.group_size;
    const int32_t wanted = source.group_size >= part.k ? 0 : source.group_size;
    const auto order_of = [&](const mortise_quantized_matrix& m) {
      return std::vector<int32_t>(m.order, m.order == nullptr ? m.order : m.order + m.k);
    };
    if (part.flags != parts[0].flags || part.zero != parts[0].zero) {
      invalid_source(name + " has another zero point than part 0, or other flags; prepare it as a weight of its own");
    }
    if (part.k != parts[0].k || part.bits != source.bits || whole != wanted || part.value_type != source.value_type ||
        order_of(part) != order_of(parts[0])) {
      invalid_source(name + " (" + format_text(part.bits, part.group_size, part.value_type) +
                     ") does not fit part 0 and " + format_text(source.bits, source.group_size, source.value_type) +
                     "; prepare it as a weight of its own");
    }
  }
  return parts;
}

void check_block32(const mortise_weight_source& source, std::int64_t k) {
  const int32_t group = source.group_size;
  const bool checkpoint = source.quantized != nullptr;
  const bool group_fits =
      checkpoint ? group == 16 || (group >= 0 && (group % 32 == 0 || group >= k)) : group == kBlock32Group;
  if ((source.bits != 4 && source.bits != 8) || !group_fits) {
    invalid_source(format_text(source.bits, group, source.value_type) + "; expected 4 or 8 bits in groups of 32, or " +
                   "(of a checkpoint) of 16, a multiple of 32, or 0 for whole rows");
  }
  constexpr std::uint32_t kKnownFlags = MORTISE_QUANTIZED_MINIMA | MORTISE_QUANTIZED_F16_SCALES;
  for (int i = 0; checkpoint && i < source.num_parts; ++i) {
    const mortise_quantized_matrix& part = *source.quantized[i];
    if (part.zero < 0 || part.zero > 255 || (part.flags & ~kKnownFlags) != 0) {
      invalid_source("zero point " + std::to_string(part.zero) + " and flags " + std::to_string(part.flags) +
                     "; expected 0 to 255, and MORTISE_QUANTIZED_*");
    }
  }
}

void check_format(const mortise_weight_source& source, std::int64_t n, std::int64_t k) {
  if (source.dtype != MORTISE_BF16 && source.dtype != MORTISE_F32) {
    invalid_source("dtype code " + std::to_string(source.dtype) + "; expected bf16 or f32");
  }
  const int32_t group = source.group_size;
  if (n > INT32_MAX || k > INT32_MAX) invalid_source("more than 2^31 - 1 rows or columns");
  if (source.value_type == MORTISE_F8_E4M3) {
    const bool whole = group == 0 || group >= k, checkpoint = source.quantized != nullptr;
    if (source.bits != 8 || group < 0 || (!whole && (group != kFp8Group || !checkpoint))) {
      invalid_source(format_text(source.bits, group, source.value_type) +
                     "; expected 8 bits in groups of 128 (of a checkpoint), or 0 for whole rows");
    }
    return;
  }
  if (source.value_type == MORTISE_F4_E2M1) {
    if (source.bits != 4 || group != kMxfp4Group) {
      invalid_source(format_text(source.bits, group, source.value_type) + "; expected 4 bits in groups of 32");
    }
    return;
  }
  if (source.value_type == MORTISE_I8_BLOCK32) return check_block32(source, k);
  if (source.value_type != 0) {
    invalid_source("value_type code " + std::to_string(source.value_type) +
                   "; expected 0 for integers, E4M3, E2M1, or I8_BLOCK32");
  }
  if ((source.bits != 4 && source.bits != 8) || group < 0 || (group != 32 && group % 64 != 0 && group < k)) {
    invalid_source(format_text(source.bits, group, source.value_type) +
                   "; expected 4 or 8 bits in groups of 32, a multiple of 64, or 0 for whole rows");
  }
  if (std::min<int64_t>(group == 0 ? k : group, k) > kMaxQuantizedGroup) {
    invalid_source("groups of " + std::to_string(group == 0 ? k : group) + " columns; at most " +
                   std::to_string(kMaxQuantizedGroup) + " sum without overflow: use a smaller group size");
  }
}

void check_order(const std::int32_t* order, std::int64_t k) {
  std::vector<bool> seen(static_cast<std::size_t>(k));
  for (int64_t j = 0; j < k; ++j) {
    if (order[j] < 0 || order[j] >= k || seen[static_cast<std::size_t>(order[j])]) {
      invalid_source("order[" + std::to_string(j) + "] is " + std::to_string(order[j]) +
                     "; expected a permutation of 0 .. " + std::to_string(k - 1));
    }
    seen[static_cast<std::size_t>(order[j])] = true;
  }
}

}  // namespace

QuantizedSource read_quantized_source(const mortise_weight_source& source) {
  if (source.use != MORTISE_WEIGHT_LINEAR) {
    invalid_source("use " + std::to_string(source.use) + " of a quantised weight; expected linear");
  }
  QuantizedSource read = {};
  if (source.quantized != nullptr) {
    read.matrices = read_matrices(source);
    for (const mortise_quantized_matrix& part : read.matrices) read.n += part.n;
    read.k = read.matrices[0].k;
    read.order = read.matrices[0].order;
  } else {
    read.floats = read_source_tensors(source);
    read.n = read.floats.back().first_row + read.floats.back().rows;
    read.k = read.floats[0].columns;
  }
  check_format(source, read.n, read.k);
  read.value_type = source.value_type;
  if (read.value_type != 0 && read.order != nullptr) {
    const char* const name = read.value_type == MORTISE_F8_E4M3   ? "E4M3"
                             : read.value_type == MORTISE_F4_E2M1 ? "E2M1"
                                                                  : "I8_BLOCK32";
    invalid_source(std::string("an order of ") + name + " values; expected none");
  }
  if (read.order != nullptr) check_order(read.order, read.k);
  read.group_size = source.group_size == 0 ? read.k : source.group_size;
  if (read.value_type == MORTISE_I8_BLOCK32 && !read.matrices.empty()) {
    read.zero = read.matrices[0].zero;
    read.has_minima = (read.matrices[0].flags & MORTISE_QUANTIZED_MINIMA) != 0;
    read.f16_scales = (read.matrices[0].flags & MORTISE_QUANTIZED_F16_SCALES) != 0;
  }
  return read;
}

void refuse_fp8_nan(const std::uint8_t* values, std::int64_t rows, std::int64_t k, std::int64_t first_row) {
  const auto nan = [](std::uint8_t value) { return (value & 0x7fu) == 0x7fu; };
  bool any = false;  // without a branch for each value, so that the compiler vectorises the loop
  for (std::int64_t i = 0; i < rows * k; ++i) any |= nan(values[i]);
  if (!any) return;
  const std::int64_t at = std::find_if(values, values + rows * k, nan) - values;
  invalid_source("the value at row " + std::to_string(first_row + at / k) + ", column " + std::to_string(at % k) +
                 " is NaN; the checkpoint is damaged: download it again, or use another one");
}

void refuse_mxfp4_scales(const float* scales, std::int64_t rows, std::int64_t groups, std::int64_t first_row) {
  // 2^-127 is the one denormal. As integers, so that no floating-point mode matters.
  constexpr std::uint32_t kSmallest = 1u << 22, kMantissa = (1u << 23) - 1, kLargest = (125u + 127u) << 23;
  const auto exact = [](std::uint32_t bits) {
    return bits == kSmallest || (bits != 0 && bits <= kLargest && (bits & kMantissa) == 0);
  };
  for (std::int64_t i = 0; i < rows * groups; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(scales[i]);
    if (exact(bits)) continue;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::int64_t column = i % groups * kMxfp4Group;
    invalid_source("row " + std::to_string(first_row + i / groups) + ", columns from " + std::to_string(column) +
                   ": the scale of MXFP4 is " +
                   (nan ? "NaN; the checkpoint is damaged: download it again, or use another one"
                        : "no power of two from 2^-127 to 2^125, so its weights are not exact in bf16; use the "
                          "checkpoint that it was made from"));
  }
}

void refuse_mxfp4_row(std::int64_t row) {
  invalid_source("row " + std::to_string(row) +
                 " has a weight that is NaN or infinite, which MXFP4 does not hold; leave `weights` out, or use "
                 "another checkpoint");
}

}  // namespace mortise
