// runtime/cli/repl/line_source.hpp: where a dialogue's lines come from: a terminal (LineEditor) or a pipe (PipeLines).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace mortise {

struct Line {
  std::string text;              // valid UTF-8, without the newline at its end
  std::size_t num_replaced = 0;  // parts that were not UTF-8 and are U+FFFD now
};

class LineSource {
 public:
  virtual ~LineSource() = default;

  // The next line, nullopt at the end of the input. Also returns, with nothing of use, when Ctrl-C is pressed
  // meanwhile: InterruptGuard::interrupted() says so. Throws an Error for a line that cannot be taken; the next call
  // goes on.
  virtual std::optional<Line> read(const std::string& prompt) = 0;
  // Keeps an entry, as it would be typed in one line, for whoever wants to go back to it.
  virtual void remember(const std::string& /*entry*/) {}
  // Before messages about the line that was read last: "line 3: ", or "" where the user sees what is meant.
  virtual std::string where() const { return ""; }
};

}  // namespace mortise
