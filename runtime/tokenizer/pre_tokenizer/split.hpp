// runtime/tokenizer/pre_tokenizer/split.hpp: splits a text at the matches of a pattern, in the five ways that tokenizer
// files define.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/pre_tokenizer/pre_tokenizer.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {

// The treatment of a match, shown for "a-b--c" split at "-":
enum class SplitBehavior {
  kRemoved,             // a b c
  kIsolated,            // a - b - - c
  kMergedWithPrevious,  // a- b- - c
  kMergedWithNext,      // a -b - -c
  kContiguous,          // a - b -- c
};

SplitBehavior read_split_behavior(const ConfigNode& node);

// Split, and pre-tokenizers that are a Split with a fixed pattern. Immutable and thread-safe.
class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert);
  void apply(PreTokenized& text) const override;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits many pieces with one set of buffers. `pattern` and `time` must outlive it. Used by one thread. Invariant:
// parts_ cover the text of the current call without gaps.
class Splitter {
 public:
  // With `invert`, the text between the matches is the match.
  Splitter(const Pattern& pattern, SplitBehavior behavior, bool invert, const TimeLimit& time)
      : pattern_(pattern), behavior_(behavior), invert_(invert), time_(time) {}

  // Appends the non-empty pieces of `text`, which starts at `offset`.
  void split(std::string_view text, std::size_t offset, std::vector<PreTokenized::Piece>& pieces);

 private:
  struct Part {
    std::size_t begin;
    std::size_t end;
    bool is_match;
  };
  void find_parts(std::string_view text);
  void join_parts();

  const Pattern& pattern_;
  SplitBehavior behavior_;
  bool invert_;
  const TimeLimit& time_;
  std::vector<Match> matches_;
  std::vector<Part> parts_;  // cover the text without gaps
};

}  // namespace mortise::tokenizer
