// runtime/jsonl/json_line.hpp: one line of a file of requests as JSON, and what is derived from it. Lines come from
// anybody, so depth and length are bounded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "jsonl/input_lines.hpp"

namespace mortise {

// Throws an Error: too long, not JSON (with the column), or nested too deep.
nlohmann::json parse_json_line(const InputLine& line, std::size_t max_line_bytes);

// What stands for a line wherever a run must come out the same when it is repeated: a function of the line's number and
// content alone.
struct LineIdentity {
  explicit LineIdentity(const InputLine& line);

  std::string hex;         // 24 digits, for ids
  std::uint64_t seed = 0;  // at most 2^63 - 1: some clients read integers as signed
};

// Compact; bytes that are not UTF-8 become U+FFFD.
std::string dump_line(const nlohmann::ordered_json& json);

}  // namespace mortise
