// runtime/bisect/first_difference.hpp: compares two traces of one request, row by row and operation by operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bisect/row_trace.hpp"

namespace mortise {

// A trace and the results of its request.
struct TraceView {
  const RowTrace& trace;
  std::span<const std::vector<std::int32_t>> sequences;  // tokens of each choice, including the prompt
};

// The first row of an operation that differs, in the order in which the old run computed. The operation read only
// earlier values, and all earlier values that were compared are equal.
struct FirstDifference {
  TracedOp op;        // from the old run; the new run has it under the same key
  std::string where;  // "layer 7, operation `linear`, out [1, 768], the second of 4 between ..."
  std::int32_t choice = 0, position = 0;
  std::int32_t new_choice = 0;  // another choice, if it computed the shared prompt
  std::uint64_t old_step = 0, new_step = 0;
};

struct TraceComparison {
  std::optional<FirstDifference> first;
  std::uint64_t num_equal = 0;  // equal rows of operations computed before the difference, or in total
  std::uint64_t num_compared = 0;
  std::uint64_t num_rows = 0;  // token positions that both runs computed
  // Parts of the layers in which the models call different operations. In these only attention, hidden rows and logits
  // are compared. Example: "between the attention of layer 3 and that of layer 4".
  std::vector<std::string> not_aligned;
};

TraceComparison compare_traces(const TraceView& old_run, const TraceView& new_run);

// Describes how two outputs of a row differ, with the first differing element: "element 513 of 768: old 0.12109375
// (0x3df8), new ...; 1 element differs". `row` is the shape.
std::string describe_elements(std::int32_t dtype, std::span<const std::int64_t> row, std::span<const std::byte> before,
                              std::span<const std::byte> after);

}  // namespace mortise
