#include "tokenizer/characters/character_sets.hpp"

#include <algorithm>
#include <span>

namespace mortise::tokenizer {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

constexpr Range kPunctuation[] = {
#include "tokenizer/characters/punctuation.inc"
};

constexpr Range kCombiningMarks[] = {
#include "tokenizer/characters/combining_marks.inc"
};

bool contains(std::span<const Range> ranges, char32_t c) {
  const auto range = std::ranges::lower_bound(ranges, c, {}, &Range::last);
  return range != ranges.end() && c >= range->first;
}

}  // namespace

bool is_punctuation(char32_t c) {
  return contains(kPunctuation, c);
}

bool is_combining_mark(char32_t c) {
  return contains(kCombiningMarks, c);
}

}  // namespace mortise::tokenizer
