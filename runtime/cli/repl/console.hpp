// runtime/cli/repl/console.hpp: the output of a dialogue. Only completions go to standard output. Output of commands,
// figures and errors go to standard error, so that a pipe gets the model's text and nothing else.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/repl/draft_marks.hpp"

namespace mortise {

// Writes the output of a dialogue. Used by one thread. Invariant: only completions go to standard output.
class Console {
 public:
  Console();

  // Writes a piece of a completion as it comes. end_completion() ends its last line.
  void completion(std::string_view text);
  // Does the same and marks drafts: with shades if standard output is a terminal with colours and NO_COLOR is not set,
  // otherwise with brackets.
  void completion(std::span<const MarkedText> pieces);
  void say_legend();  // explains the marks of drafts
  void end_completion();
  // Writes lines. Adds a newline at the end if there is none.
  void say(std::string_view text);
  void error(std::string_view text);

 private:
  bool screen_out_;  // standard output is a terminal
  bool screen_err_;
  bool has_shades_;
};

// Returns `text` with control characters (except newline and tab) written as "^[", so that text of a model or a file
// cannot control the terminal.
std::string harmless(std::string_view text);

}  // namespace mortise
