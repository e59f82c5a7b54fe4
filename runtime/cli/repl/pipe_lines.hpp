// runtime/cli/repl/pipe_lines.hpp: reads the lines of a pipe or file for a dialogue without a terminal. Used by one
// thread.
#pragma once

#include "cli/repl/line_source.hpp"

namespace mortise {

// Reads lines from a descriptor. Invariant: buffer_ from start_ on is read but not returned. Used by one thread.
class PipeLines : public LineSource {
 public:
  // Reads the descriptor and does not close it.
  // REQUIRES: an InterruptGuard lives, so that Ctrl-C ends a read.
  explicit PipeLines(int descriptor) : descriptor_(descriptor) {}

  std::optional<Line> read(const std::string& prompt) override;
  std::string where() const override;

 private:
  bool fill();  // returns false at the end of the input, or when interrupted

  int descriptor_;
  std::string buffer_;
  std::size_t start_ = 0;  // start of the data that was not returned yet
  std::size_t number_ = 0;
  bool ended_ = false;
};

// Returns `bytes` with U+FFFD for each part that is not UTF-8, like Python's errors="replace".
Line to_line(std::string_view bytes);

}  // namespace mortise
