// runtime/cli/repl/line_source.hpp: the source of a dialogue's lines: a terminal (LineEditor) or a pipe (PipeLines).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace mortise {

struct Line {
  std::string text;              // valid UTF-8, without the newline at its end
  std::size_t num_replaced = 0;  // invalid UTF-8 that was replaced by U+FFFD
};

// Reads lines one after the other. Used by one thread. Invariant: lines come in the order of the input.
class LineSource {
 public:
  virtual ~LineSource() = default;

  // Returns the next line; nullopt at the end of the input. If Ctrl-C is pressed meanwhile, the line is unspecified,
  // and InterruptGuard::interrupted() is true. Throws an Error for an invalid line; the next call continues.
  virtual std::optional<Line> read(const std::string& prompt) = 0;
  // Adds an entry, in its form as a single line, to the history if there is one.
  virtual void remember(const std::string& /*entry*/) {}
  // Returns a prefix for messages about the last line: "line 3: ", or "" if the user sees the line.
  virtual std::string where() const { return ""; }
};

}  // namespace mortise
