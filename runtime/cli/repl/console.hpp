// runtime/cli/repl/console.hpp: where a dialogue's output goes. Completions alone go to standard output; what commands
// say, figures and errors go to standard error, so that a pipe gets the model's text and nothing else.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/repl/draft_marks.hpp"

namespace mortise {

class Console {
 public:
  Console();

  // A piece of a completion, as it comes; end_completion() ends its last line.
  void completion(std::string_view text);
  // The same with drafts marked: shades where standard output is a terminal with colours and NO_COLOR is not set, else
  // brackets.
  void completion(std::span<const MarkedText> pieces);
  void say_legend();  // what these marks mean
  void end_completion();
  // Lines; each gets a newline if it has none.
  void say(std::string_view text);
  void error(std::string_view text);

 private:
  bool screen_out_;  // standard output is a terminal
  bool screen_err_;
  bool has_shades_;
};

// `text` with control characters (but newline and tab) as "^[": what a model or a file says must not command a
// terminal.
std::string harmless(std::string_view text);

}  // namespace mortise
