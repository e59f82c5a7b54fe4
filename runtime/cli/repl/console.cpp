#include "cli/repl/console.hpp"

#include <unistd.h>

#include <iostream>
#include <vector>

#include "cli/repl/terminal.hpp"
#include "environment.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise {
namespace {

bool wants_no_colour() {
  return environment::read(environment::kNoColour).has_value();
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      out += '^';
      out += static_cast<char>(byte ^ 0x40);
    } else if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      out += tokenizer::kReplacementCharacter;  // U+0080 to U+009F are control characters
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

Console::Console()
    : screen_out_(isatty(STDOUT_FILENO) != 0),
      screen_err_(isatty(STDERR_FILENO) != 0),
      has_shades_(screen_out_ && takes_control_sequences() && !wants_no_colour()) {}

void Console::completion(std::string_view text) {
  std::cout << (screen_out_ ? harmless(text) : std::string(text)) << std::flush;
}

void Console::completion(std::span<const MarkedText> pieces) {
  std::vector<MarkedText> shown(pieces.begin(), pieces.end());
  for (MarkedText& piece : shown) {
    if (screen_out_) piece.text = harmless(piece.text);
  }
  std::cout << (has_shades_ ? shaded(shown) : bracketed(shown)) << std::flush;
}

void Console::say_legend() {
  const MarkedText legend[] = {{"accepted drafts", TokenOrigin::kAccepted},
                               {" ", TokenOrigin::kPlain},
                               {"bonus token after them", TokenOrigin::kBonus},
                               {" ", TokenOrigin::kPlain},
                               {"token in place of a rejected draft", TokenOrigin::kRecovered},
                               {" ", TokenOrigin::kPlain},
                               {"no draft", TokenOrigin::kPlain}};
  std::cerr << (has_shades_ && screen_err_ ? shaded(legend) : bracketed(legend)) << '\n';
}

void Console::end_completion() {
  std::cout << std::endl;
}

void Console::say(std::string_view text) {
  std::cerr << (screen_err_ ? harmless(text) : std::string(text));
  if (!text.ends_with('\n')) std::cerr << '\n';
}

void Console::error(std::string_view text) {
  say("mortise: " + std::string(text));
}

}  // namespace mortise
