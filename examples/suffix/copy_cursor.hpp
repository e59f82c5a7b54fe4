// examples/suffix/copy_cursor.hpp: where in its own text a sequence copies from, and where it may go on behind an edit.
//
// An answer that edits its prompt copies a stretch, writes something else, and goes on copying a little further on.
// Right behind the edit the last token or two match at many places. The right place is most often the one nearest to
// where the copy stopped, which neither the longest nor the most frequent match finds. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace suffix {

class CopyCursor {
 public:
  using Text = std::vector<int32_t>;

  // The copy goes on in step; or behind as many tokens as were written instead; or at another place, near or far.
  enum Kind { kFar, kNear, kInPlace, kInStep };
  struct Guess {
    int32_t index;   // the next token should be text[index]
    int32_t length;  // how many tokens match before it
    Kind kind;
  };
  std::optional<Guess> guess(const Text& text) const {
    if (at_ < 0) return std::nullopt;
    if (num_edited_ == 0) return Guess{at_, length_, kInStep};
    const auto size = static_cast<int32_t>(text.size());
    Guess best = {at_ + num_edited_, 0, kInPlace};
    for (int32_t index = at_; index < std::min(at_ + kWindow, size); ++index) {
      int32_t length = 0;
      while (length < std::min(num_edited_, kMostCompared) && text[index - 1 - length] == text[size - 1 - length])
        ++length;
      if (length <= best.length) continue;
      best = {index, length, index == at_ + num_edited_ ? kInPlace : index < at_ + kNearby ? kNear : kFar};
    }
    if (best.index >= size) return std::nullopt;
    return best;
  }

  // `text` is about to go on with `token`. Its last `length` tokens stood before, right before text[index].
  void advance(const Text& text, int32_t token, int32_t length, int32_t index) {
    if (length >= kCopy && text[index] == token) {
      at_ = index + 1;
      length_ = length + 1;
      num_edited_ = 0;
    } else if (const auto guessed = guess(text); guessed && text[guessed->index] == token) {
      at_ = guessed->index + 1;
      length_ = guessed->length + 1;
      num_edited_ = 0;
    } else if (at_ >= 0 && ++num_edited_ > kMostEdited) {
      at_ = -1;
    }
  }

 private:
  static constexpr int32_t kCopy = 4;     // so many matching tokens are a copy, fewer may be chance
  static constexpr int32_t kWindow = 64;  // tokens behind the end of a copy in which it may go on
  static constexpr int32_t kNearby = 8;
  static constexpr int32_t kMostEdited = 32;   // tokens; behind more of them the copy has ended
  static constexpr int32_t kMostCompared = 4;  // tokens; longer matches are found without a cursor

  int32_t at_ = -1;         // the copy goes on, or stopped, at text[at_]; -1: there is none
  int32_t length_ = 0;      // tokens that were copied in step
  int32_t num_edited_ = 0;  // tokens since the copy stopped; 0: it goes on
};

}  // namespace suffix
