// runtime/tokenizer/added_tokens/added_token_matcher.hpp: finds many fixed texts at once: the leftmost match first, and
// the longest at each position.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::tokenizer {

// A sorted list of texts. Immutable and thread-safe after finish(). Invariant: after finish() the patterns are sorted
// by text.
class AddedTokenMatcher {
 public:
  struct Found {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  // If two texts are equal, the one added first is found. An empty text is never found.
  void add(std::string_view text, std::int32_t id);
  // Call after the last add(), before find_all().
  void finish();

  bool empty() const { return patterns_.empty(); }
  // Filters matches. If it rejects the longest match at a position, the next shorter one is tried.
  using Allowed = std::function<bool(const Found&)>;

  // Replaces `found` by the matches in `text`, which do not overlap. Without `allowed` every match is accepted.
  void find_all(std::string_view text, std::vector<Found>& found, const Allowed& allowed = nullptr) const;
  // Whether one of the texts begins at `at`.
  // REQUIRES: at < text.size().
  bool is_at(std::string_view text, std::size_t at) const { return longest_at(text, at, nullptr) != nullptr; }

 private:
  struct Pattern {
    std::string text;
    std::int32_t id;
  };
  // The patterns that start with one byte: [begin, end) of the sorted patterns.
  struct Bucket {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };
  const Pattern* longest_at(std::string_view text, std::size_t at, const Allowed& allowed) const;

  std::vector<Pattern> patterns_;  // sorted by text
  std::array<Bucket, 256> buckets_;
};

}  // namespace mortise::tokenizer
