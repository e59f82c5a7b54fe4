// runtime/tokenizer/text_ranges.hpp: the parts of a text in which special tokens may be found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace mortise::tokenizer {

// Ranges of bytes. Used by one thread while ranges are added; then any thread may read them. Invariant: ranges ascend,
// with gaps between them.
class TextRanges {
 public:
  static TextRanges everywhere() {
    TextRanges all;
    all.add(0, static_cast<std::size_t>(-1));
    return all;
  }

  // REQUIRES: [begin, end) is after the ranges added before, or touches the last one.
  void add(std::size_t begin, std::size_t end) {
    if (begin == end) return;
    if (!ranges_.empty() && ranges_.back().second == begin) {
      ranges_.back().second = end;
    } else {
      ranges_.emplace_back(begin, end);
    }
  }

  // Whether a single range contains all of [begin, end).
  bool cover(std::size_t begin, std::size_t end) const {
    const auto behind = std::ranges::upper_bound(ranges_, begin, {}, &std::pair<std::size_t, std::size_t>::first);
    return behind != ranges_.begin() && end <= std::prev(behind)->second;
  }

  // The ranges within [begin, end) of the text, counted from `begin`.
  TextRanges within(std::size_t begin, std::size_t end) const {
    TextRanges part;
    auto range = std::ranges::upper_bound(ranges_, begin, {}, &std::pair<std::size_t, std::size_t>::second);
    for (; range != ranges_.end() && range->first < end; ++range) {
      part.add(std::max(range->first, begin) - begin, std::min(range->second, end) - begin);
    }
    return part;
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;  // ascending, with gaps between them
};

}  // namespace mortise::tokenizer
