#include "tokenizer/regex/reader.hpp"

#include <cctype>

#include "error.hpp"
#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

bool is_one_of(char letter, std::string_view letters) {
  return letters.find(letter) != std::string_view::npos;
}

}  // namespace

void RegexReader::refuse(std::string_view what) const {
  fail("{} at offset {} of the regular expression is not supported", what, position_);
}

std::string_view RegexReader::take(std::size_t count) {
  const std::string_view taken = in_.substr(position_, count);
  position_ += count;
  return taken;
}

std::string_view RegexReader::take_character() {
  return take(character_length(peek()));
}

bool RegexReader::take_class(CharacterSet& set) {
  if (peek() != '\\') return false;
  const char letter = peek(1);
  if (is_one_of(letter, "swdhSWDH")) {
    set = shorthand_set(static_cast<char>(std::tolower(letter)));
    set.negated = std::isupper(letter) != 0;
    position_ += 2;
    return true;
  }
  if (letter != 'p' && letter != 'P') return false;
  const std::size_t close = in_.find('}', position_);
  if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without {name}");
  std::string_view name = in_.substr(position_ + 3, close - position_ - 3);
  const bool caret = name.starts_with('^');
  if (caret) name.remove_prefix(1);
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && !is_one_of(c, "_- ")) refuse("the property's name");
  }
  set = property_set(name);
  set.negated = set.negated != (caret != (letter == 'P'));
  position_ = close + 1;
  return true;
}

bool RegexReader::take_class_in_set(CharacterSet& set) {
  if (!take_class(set)) return false;
  if (set.body == shorthand_set('w').body) set.body = word_set_in_brackets().body;
  return true;
}

void RegexReader::take_literal_escape(std::string& out) {
  const char letter = peek(1);
  if (letter == '\0' && at_end(1)) refuse("a \\ at the end");
  if (letter == 'x') return take_hexadecimal_escape(out);
  if (letter == 'u') {
    out += fmt::format("\\x{{{}}}", hexadecimal_digits(position_ + 2, 4));
    position_ += 6;
  } else if (letter == 'v') {
    out += "\\x0B";  // in PCRE2, \v is a class of line ends
    position_ += 2;
  } else if (is_one_of(letter, "ntrfae")) {
    out += take(2);
  } else if (std::isalnum(static_cast<unsigned char>(letter))) {
    refuse(in_.substr(position_, 2));
  } else {
    if (static_cast<unsigned char>(letter) < 0x80) out += '\\';
    ++position_;
    out += take_character();
  }
}

void RegexReader::take_hexadecimal_escape(std::string& out) {
  if (peek(2) == '{') {
    const std::size_t close = in_.find('}', position_);
    const std::size_t digits = close == std::string_view::npos ? 0 : close - position_ - 3;
    out += fmt::format("\\x{{{}}}", hexadecimal_digits(position_ + 3, digits));
    position_ = close + 1;
    return;
  }
  // One or two digits: a byte. To Oniguruma, bytes above 7F are parts of characters.
  const std::size_t count = std::isxdigit(static_cast<unsigned char>(peek(3))) ? 2 : 1;
  const std::string digits = hexadecimal_digits(position_ + 2, count);
  if (count == 2 && digits[0] >= '8') refuse("a byte that is no character (write \\x{..})");
  out += fmt::format("\\x{{{}}}", digits);
  position_ += 2 + count;
}

std::string RegexReader::hexadecimal_digits(std::size_t begin, std::size_t count) const {
  if (count == 0 || begin + count > in_.size()) refuse("an incomplete hexadecimal escape");
  const std::string digits(in_.substr(begin, count));
  for (const char c : digits) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) refuse("an incomplete hexadecimal escape");
  }
  return digits;
}

}  // namespace mortise::tokenizer
