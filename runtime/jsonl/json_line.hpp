// runtime/jsonl/json_line.hpp: a line of a file of requests as JSON, and the values that are derived from it. Lines are
// not trusted, so depth and length are bounded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "jsonl/input_lines.hpp"

namespace mortise {

// Throws an Error if the line is too long, not JSON (with the column), or nested too deeply.
nlohmann::json parse_json_line(const InputLine& line, std::size_t max_line_bytes);

// Identifies a line in results that must be the same when a run is repeated. A function of the line's number and
// content alone. A value.
struct LineIdentity {
  explicit LineIdentity(const InputLine& line);

  std::string hex;         // 24 digits, for ids
  std::uint64_t seed = 0;  // at most 2^63 - 1: some clients read integers as signed
};

// Compact JSON. Bytes that are not UTF-8 become U+FFFD.
std::string dump_line(const nlohmann::ordered_json& json);

}  // namespace mortise
