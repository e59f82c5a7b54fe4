// runtime/execution/difference.hpp: finds and describes the first bit in which two parts that compute the same step
// differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "mortise/batch.h"
#include "mortise/tensor.h"

namespace mortise {

// A number and its bits in memory.
struct ElementBits {
  float value = 0;
  std::uint32_t bits = 0;
};

// Where and how two parts differ. A value: each thread has its own.
struct Difference {
  std::string what = {};    // "attention output", "hidden row", "logits"; after a failure the function, if known: "run"
  std::int32_t layer = -1;  // -1: after all layers
  std::uint64_t seq_id = 0;
  std::int32_t position = -1;  // of the row's token; -1: the difference is in no row
  std::int64_t element = -1;   // of the row; -1: the candidate failed without a result
  std::int32_t bits = 32;      // of an element: 16 or 32
  ElementBits serving = {}, candidate = {};
  std::string failure = {};  // the candidate's error; empty: it computed other bits
};

// Rows of elements in host memory.
struct HostRows {
  const std::byte* data = nullptr;
  std::int64_t row_bytes = 0;     // of the elements of a row
  std::int64_t stride_bytes = 0;  // from one row to the next
  std::int32_t dtype = MORTISE_F32;
};

// Finds the first row and element, among the first `num_rows` rows, that differ in a bit; nullopt: all are equal.
// REQUIRES: equal row_bytes and dtypes.
struct ElementAt {
  std::int64_t row, element;
};
std::optional<ElementAt> first_difference(const HostRows& serving, const HostRows& candidate, std::int64_t num_rows);
// Makes a Difference for `what` with the values and bits of both sides. The caller sets sequence and position.
Difference difference_at(const HostRows& serving, const HostRows& candidate, const ElementAt& at, std::string what);

// Sets sequence and position of `difference` to those of row `row` of the batch.
void place_row(const mortise_batch& batch, std::int64_t row, Difference& difference);

// Describes a difference: "layer 2, position 17: element 5 of the attention output is 0.25 (0x3e80) and would be 0.5
// (0x3f00)"
std::string describe(const Difference& difference);

}  // namespace mortise
