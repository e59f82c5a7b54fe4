#include "tokenizer/unicode_normalization.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include <utf8proc.h>

#include "tokenizer/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr std::size_t kMaxDecomposition = 32;  // the longest one has 18 code points (U+FDFA)

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Nothing under U+0300 composes with its neighbour, and U+00A0 is the first compatibility character.
bool is_unchanged(std::string_view text, NormalForm form) {
  const unsigned char first_changed = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::ranges::all_of(text, [=](char c) { return static_cast<unsigned char>(c) < first_changed; });
}

void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_unchanged(text, form)) return std::string(text);
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary_class = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(next_code_point(text, i)), parts,
                                               kMaxDecomposition, options, &boundary_class);
    assert(count >= 0 && static_cast<std::size_t>(count) <= kMaxDecomposition);
    code_points.insert(code_points.end(), parts, parts + count);
  }
  order_marks(code_points);
  const auto length =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), options);
  assert(length >= 0);
  std::string normalized;
  normalized.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(static_cast<char32_t>(code_points[i]), normalized);
  return normalized;
}

std::string to_lower_case(std::string_view text) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the one character whose lower case is two: i and a dot above
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (c == kCapitalIWithDot) {
      lower += "i\xCC\x87";
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), lower);
    }
  }
  return lower;
}

}  // namespace mortise::tokenizer
