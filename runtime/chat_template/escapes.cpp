#include "chat_template/escapes.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>

#include "error.hpp"

namespace mortise::jinja {
namespace {

// Reads `least` to `most` digits of a base, and moves `at` past them.
std::uint32_t read_code(std::string_view text, std::size_t& at, std::size_t least, std::size_t most, int base) {
  std::uint32_t code = 0;
  const char* const begin = text.data() + at;
  const char* const end = begin + std::min(most, text.size() - at);
  const auto [stop, error] = std::from_chars(begin, end, code, base);
  const auto count = static_cast<std::size_t>(stop - begin);
  if (error != std::errc{} || count < least)
    fail("a string has an invalid escape; \\x takes 2 digits, \\u 4 and \\U 8");
  at += count;
  return code;
}

void append_code(std::uint32_t code, std::string& out) {
  utf8proc_uint8_t bytes[4];
  if (!utf8proc_codepoint_valid(static_cast<utf8proc_int32_t>(code))) {
    fail("a string has an escape for U+{:04X}, which is not a character", code);
  }
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

}  // namespace

std::string unescape(std::string_view text) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '\\' || at == text.size()) {
      out += c;
      continue;
    }
    const char escaped = text[at++];
    if (const std::size_t letter = kLetters.find(escaped); letter != kLetters.npos) {
      out += kMeanings[letter];
    } else if (escaped == 'x') {
      append_code(read_code(text, at, 2, 2, 16), out);
    } else if (escaped == 'u') {
      append_code(read_code(text, at, 4, 4, 16), out);
    } else if (escaped == 'U') {
      append_code(read_code(text, at, 8, 8, 16), out);
    } else if (escaped >= '0' && escaped <= '7') {
      append_code(read_code(text, --at, 1, 3, 8), out);
    } else if (escaped == 'N') {
      fail("a string has the escape \\N, which is not supported; write the character itself");
    } else if (escaped != '\n') {
      out += '\\';
      out += escaped;
    }
  }
  return out;
}

}  // namespace mortise::jinja
