#include "tokenizer/normalizer/unicode_normalization.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include <utf8proc.h>

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {
namespace {

constexpr std::size_t kMaxDecomposition = 32;  // the longest one has 18 code points (U+FDFA)

struct Range {
  char32_t first;
  char32_t last;
};

constexpr Range kInertCharacters[] = {
#include "tokenizer/characters/inert_characters.inc"
};

bool is_inert(char32_t c) {
  const auto* range = std::ranges::lower_bound(kInertCharacters, c, {}, &Range::last);
  return range != std::end(kInertCharacters) && c >= range->first;
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Characters below U+0300 do not compose with each other, and U+00A0 is the first character that decomposes.
bool is_unchanged(std::string_view text, NormalForm form) {
  const unsigned char first_changed = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::ranges::all_of(text, [=](char c) { return static_cast<unsigned char>(c) < first_changed; });
}

utf8proc_option_t options_of(NormalForm form) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

// Normalises stretches of text between inert characters.
class Normalizing {
 public:
  explicit Normalizing(NormalForm form, std::string& out) : options_(options_of(form)), out_(out) {}

  void add(char32_t c) {
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary_class = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kMaxDecomposition, options_, &boundary_class);
    assert(count >= 0 && static_cast<std::size_t>(count) <= kMaxDecomposition);
    code_points_.insert(code_points_.end(), parts, parts + count);
  }

  void end_stretch() {
    order_marks();
    const auto length =
        utf8proc_normalize_utf32(code_points_.data(), static_cast<utf8proc_ssize_t>(code_points_.size()), options_);
    assert(length >= 0);
    for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(static_cast<char32_t>(code_points_[i]), out_);
    code_points_.clear();
  }

 private:
  void order_marks() {
    const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
    for (auto begin = code_points_.begin(); begin != code_points_.end();) {
      begin = std::find_if(begin, code_points_.end(), is_mark);
      const auto end = std::find_if_not(begin, code_points_.end(), is_mark);
      std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      begin = end;
    }
  }

  utf8proc_option_t options_;
  std::string& out_;
  std::vector<utf8proc_int32_t> code_points_;
};

// Lower case of Unicode 16, which is newer than utf8proc's, and the one character whose lower case has two characters.
void append_lower_case(char32_t c, std::string& out) {
  switch (c) {
    case 0x130:
      out += "i\xCC\x87";
      return;
    case 0xA7CB:
      return append_utf8(0x264, out);
    case 0xA7DC:
      return append_utf8(0x19B, out);
    case 0x1C89:
    case 0xA7CC:
    case 0xA7DA:
      return append_utf8(c + 1, out);
    default:
      if (c >= 0x10D50 && c <= 0x10D65) return append_utf8(c + 0x20, out);
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_unchanged(text, form)) return std::string(text);
  std::string normalized;
  normalized.reserve(text.size());
  Normalizing stretch(form, normalized);
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (is_inert(c)) {
      stretch.end_stretch();
      append_utf8(c, normalized);
    } else {
      stretch.add(c);
    }
  }
  stretch.end_stretch();
  return normalized;
}

std::string to_lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) append_lower_case(next_code_point(text, i), lower);
  return lower;
}

}  // namespace mortise::tokenizer
