#include "execution/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mortise/plugin.hpp"

namespace mortise {
namespace {

ElementBits element_of(const HostRows& rows, const ElementAt& at) {
  const std::int64_t bytes = dtype_bytes(rows.dtype);
  ElementBits element;
  // This code runs on little-endian machines: the copied bytes become the low bits of the integer.
  std::memcpy(&element.bits, rows.data + at.row * rows.stride_bytes + at.element * bytes,
              static_cast<std::size_t>(bytes));
  element.value = std::bit_cast<float>(rows.dtype == MORTISE_BF16 ? element.bits << 16 : element.bits);
  return element;
}

}  // namespace

std::optional<ElementAt> first_difference(const HostRows& serving, const HostRows& candidate, std::int64_t num_rows) {
  const std::int64_t element_bytes = dtype_bytes(serving.dtype);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const std::byte* const a = serving.data + row * serving.stride_bytes;
    const std::byte* const b = candidate.data + row * candidate.stride_bytes;
    if (std::memcmp(a, b, static_cast<std::size_t>(serving.row_bytes)) == 0) continue;
    const auto at = std::mismatch(a, a + serving.row_bytes, b).first - a;
    return ElementAt{row, at / element_bytes};
  }
  return std::nullopt;
}

Difference difference_at(const HostRows& serving, const HostRows& candidate, const ElementAt& at, std::string what) {
  Difference difference;
  difference.what = std::move(what);
  difference.element = at.element;
  difference.bits = serving.dtype & 0xff;
  difference.serving = element_of(serving, at);
  difference.candidate = element_of(candidate, at);
  return difference;
}

void place_row(const mortise_batch& batch, std::int64_t row, Difference& difference) {
  const std::int32_t* const ends = batch.cu_seqlens_q + 1;
  const auto run = std::upper_bound(ends, ends + batch.num_seqs, static_cast<std::int32_t>(row)) - ends;
  difference.seq_id = batch.seq_ids[run];
  difference.position = batch.positions[row];
}

std::string describe(const Difference& difference) {
  std::string where;
  if (difference.layer >= 0) where += fmt::format("layer {}, ", difference.layer);
  if (difference.position >= 0) where += fmt::format("position {}, ", difference.position);
  if (!where.empty()) where.replace(where.size() - 2, 2, ": ");
  if (difference.element < 0) {
    return fmt::format("{}{}{}{}", where, difference.what,
                       difference.what.empty() ? "" : " failed: ", difference.failure);
  }
  const int digits = difference.bits / 4;
  return fmt::format("{}element {} of the {} is {} (0x{:0{}x}) and would be {} (0x{:0{}x})", where, difference.element,
                     difference.what, difference.serving.value, difference.serving.bits, digits,
                     difference.candidate.value, difference.candidate.bits, digits);
}

}  // namespace mortise
