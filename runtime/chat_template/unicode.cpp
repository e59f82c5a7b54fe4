#include "chat_template/unicode.hpp"

#include <utf8proc.h>

namespace mortise::jinja {
namespace {

void append_character(std::int32_t character, Source source, MarkedText& out) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(character, bytes);
  out.append({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)}, source);
}

constexpr std::int32_t kSharpS = 0xDF, kFinalSigma = 0x3C2, kSigma = 0x3C3, kCapitalSigma = 0x3A3;

void append_upper(std::int32_t character, bool title, Source source, MarkedText& out) {
  if (character == kSharpS) return out.append(title ? "Ss" : "SS", source);
  append_character(title ? utf8proc_totitle(character) : utf8proc_toupper(character), source, out);
}

bool is_case_ignorable(std::int32_t character) {
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return character == '\'' || character == '.' || character == ':' || character == 0xB7 || character == 0x2019;
  }
}

// Whether a capital sigma is at the end of a word, where its lower case differs.
bool is_final(const std::string& text, bool cased_before, std::size_t after) {
  if (!cased_before) return false;
  while (after < text.size()) {
    const std::int32_t character = next_character(text, after);
    if (!is_case_ignorable(character)) return !is_cased(character);
  }
  return true;
}

}  // namespace

std::int32_t next_character(std::string_view text, std::size_t& at) {
  utf8proc_int32_t character = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                     static_cast<utf8proc_ssize_t>(text.size() - at), &character);
  at += size > 0 ? static_cast<std::size_t>(size) : 1;
  return character;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && index-- == 0) return at;
  }
  return text.size();
}

bool is_space(std::int32_t character) {
  if (character < 0x80) return (character >= 9 && character <= 13) || (character >= 0x1C && character <= 0x20);
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 || character == 0x2029 ||
         character == 0x202F || character == 0x205F || character == 0x3000;
}

bool is_cased(std::int32_t character) {
  const auto category = utf8proc_category(character);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

bool is_alphabetic(std::int32_t character) {
  const auto category = utf8proc_category(character);
  return is_cased(character) || category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_LO;
}

bool is_digit(std::int32_t character) {
  return utf8proc_category(character) == UTF8PROC_CATEGORY_ND;
}

MarkedText with_case(const MarkedText& text, Case wanted) {
  MarkedText out;
  bool cased_before = false, first = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const std::int32_t character = next_character(text.bytes(), at);
    const Source source = text.source_at(begin);
    const bool titled = wanted == Case::kTitle ? !cased_before : wanted == Case::kCapitalized && first;
    if (wanted == Case::kUpper || titled) {
      append_upper(character, titled, source, out);
    } else if (character == kCapitalSigma) {
      append_character(is_final(text.bytes(), cased_before, at) ? kFinalSigma : kSigma, source, out);
    } else if (character == 0x130) {  // a capital I with a dot
      out.append("i\xCC\x87", source);
    } else {
      append_character(utf8proc_tolower(character), source, out);
    }
    // str.title() begins a word after any character without case; lower() looks past case-ignorable marks.
    cased_before = is_cased(character) || (wanted == Case::kLower && cased_before && is_case_ignorable(character));
    first = false;
  }
  return out;
}

}  // namespace mortise::jinja
