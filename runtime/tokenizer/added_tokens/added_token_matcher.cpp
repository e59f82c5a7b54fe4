#include "tokenizer/added_tokens/added_token_matcher.hpp"

#include <algorithm>

namespace mortise::tokenizer {

void AddedTokenMatcher::add(std::string_view text, std::int32_t id) {
  if (!text.empty()) patterns_.push_back({std::string(text), id});
}

void AddedTokenMatcher::finish() {
  std::ranges::stable_sort(patterns_, {}, &Pattern::text);
  const auto repeated = std::ranges::unique(patterns_, {}, &Pattern::text);
  patterns_.erase(repeated.begin(), repeated.end());
  for (std::uint32_t i = 0; i < patterns_.size(); ++i) {
    Bucket& bucket = buckets_[static_cast<unsigned char>(patterns_[i].text[0])];
    if (bucket.end == 0) bucket.begin = i;
    bucket.end = i + 1;
  }
}

// Narrows the sorted patterns down byte by byte. Patterns with the same first `depth` bytes are adjacent; the one that
// ends there comes first.
const AddedTokenMatcher::Pattern* AddedTokenMatcher::longest_at(std::string_view whole, std::size_t at,
                                                                const Allowed& allowed) const {
  const std::string_view text = whole.substr(at);
  const Bucket& bucket = buckets_[static_cast<unsigned char>(text[0])];
  const Pattern* begin = patterns_.data() + bucket.begin;
  const Pattern* end = patterns_.data() + bucket.end;
  const Pattern* longest = nullptr;
  for (std::size_t depth = 1; begin != end; ++depth) {
    if (begin->text.size() == depth) {
      if (!allowed || allowed({at, at + depth, begin->id})) longest = begin;
      ++begin;
    }
    if (depth == text.size()) break;
    const auto byte_at_depth = [depth](const Pattern& pattern) {
      return static_cast<unsigned char>(pattern.text[depth]);
    };
    const auto range = std::ranges::equal_range(begin, end, static_cast<unsigned char>(text[depth]), {}, byte_at_depth);
    begin = range.begin();
    end = range.end();
  }
  return longest;
}

void AddedTokenMatcher::find_all(std::string_view text, std::vector<Found>& found, const Allowed& allowed) const {
  found.clear();
  if (patterns_.empty()) return;
  for (std::size_t at = 0; at < text.size();) {
    const Pattern* pattern = longest_at(text, at, allowed);
    if (!pattern) {
      ++at;
      continue;
    }
    found.push_back({at, at + pattern->text.size(), pattern->id});
    at += pattern->text.size();
  }
}

}  // namespace mortise::tokenizer
