// runtime/cli/repl/console.hpp: where a dialogue's output goes. Completions alone go to standard output; what commands
// say, figures and errors go to standard error, so that a pipe gets the model's text and nothing else.
#pragma once

#include <string>
#include <string_view>

namespace mortise {

class Console {
 public:
  Console();

  // A piece of a completion, as it comes; end_completion() ends its last line.
  void completion(std::string_view text);
  void end_completion();
  // Lines; each gets a newline if it has none.
  void say(std::string_view text);
  void error(std::string_view text);

 private:
  bool screen_out_;  // standard output is a terminal
  bool screen_err_;
};

// `text` with control characters (but newline and tab) as "^[": what a model or a file says must not command a
// terminal.
std::string harmless(std::string_view text);

}  // namespace mortise
