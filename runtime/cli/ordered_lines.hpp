// runtime/cli/ordered_lines.hpp: JSON lines in, JSON lines out in the same order, many of them at work at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <iosfwd>
#include <string>

namespace mortise {

// The answer to a line: what to print, and whether it counts as failed.
struct LineResult {
  std::string text;
  bool failed = false;
};

// Starts the work on a line; the future becomes ready on another thread. Must not throw.
using StartLine = std::function<std::future<LineResult>(std::size_t line_number, const std::string& line)>;

// Reads lines (numbered from 1; blank ones are passed over) and writes each result as soon as those before it are
// written. Keeps at most `max_in_flight` lines at work. Returns the number of lines that failed; throws an Error when
// `out` cannot be written.
std::size_t run_ordered_lines(std::istream& in, std::ostream& out, std::size_t max_in_flight, const StartLine& start);

}  // namespace mortise
