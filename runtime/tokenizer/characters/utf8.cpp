#include "tokenizer/characters/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace mortise::tokenizer {
namespace {

enum class Found {
  kCharacter,
  kInvalid,
  kCut,  // the text ends inside a character that is valid so far
};

struct Scan {
  std::size_t length;  // bytes of the character, or of the maximal subpart that cannot be completed
  Found found;
};

// After a lead byte, the second byte must be in a range (which excludes overlong forms, surrogates and code points
// above U+10FFFF), the others in 80..BF: table 3-7 of the Unicode standard.
Scan scan_character(const unsigned char* text, std::size_t size) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return {1, Found::kCharacter};
  if (lead < 0xC2 || lead > 0xF4) return {1, Found::kInvalid};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == size) return {i, Found::kCut};
    if (text[i] < low || text[i] > high) return {i, Found::kInvalid};
    low = 0x80;
    high = 0xBF;
  }
  return {length, Found::kCharacter};
}

// Skips eight ASCII bytes at a time, since most text is ASCII.
std::size_t skip_ascii(const unsigned char* text, std::size_t size) {
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, text + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < size && text[i] < 0x80) ++i;
  return i;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t i = 0;;) {
    i += skip_ascii(bytes + i, text.size() - i);
    if (i == text.size()) return true;
    const Scan scan = scan_character(bytes + i, text.size() - i);
    if (scan.found != Found::kCharacter) return false;
    i += scan.length;
  }
}

std::size_t append_lossy(std::string_view bytes, bool is_end, std::string& out) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  for (std::size_t i = 0;;) {
    const std::size_t ascii = skip_ascii(data + i, bytes.size() - i);
    out.append(bytes.substr(i, ascii));
    i += ascii;
    if (i == bytes.size()) return i;
    const Scan scan = scan_character(data + i, bytes.size() - i);
    if (scan.found == Found::kCut && !is_end) return i;
    out.append(scan.found == Found::kCharacter ? bytes.substr(i, scan.length) : kReplacementCharacter);
    i += scan.length;
  }
}

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data()) + position;
  const std::size_t length = character_length(text[position]);
  position += length;
  switch (length) {
    case 1:
      return bytes[0];
    case 2:
      return (bytes[0] & 0x1Fu) << 6 | (bytes[1] & 0x3Fu);
    case 3:
      return (bytes[0] & 0x0Fu) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu);
    default:
      return (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3Fu) << 12 | (bytes[2] & 0x3Fu) << 6 | (bytes[3] & 0x3Fu);
  }
}

std::size_t previous_character(std::string_view text, std::size_t position) {
  do {
    --position;
  } while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

std::size_t character_boundary(std::string_view text, std::size_t position) {
  while (position < text.size() && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80) ++position;
  return position;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    std::size_t next = begin;
    if (!is_white_space(next_code_point(text, next))) break;
    begin = next;
  }
  return begin;
}

std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    const std::size_t begin = previous_character(text, end);
    std::size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    end = begin;
  }
  return end;
}

}  // namespace mortise::tokenizer
