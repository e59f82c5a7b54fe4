// runtime/cli/caller_marks.hpp: finds the parts that a script's chat_template copied from the messages into its text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/text_segment.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Marks each text of `messages` with two characters of Unicode's private area around it, which the function copies with
// the text. The two characters do not occur in the messages. They also surround the first character of each special
// token that a text spells, because the function may cut the token out of the text. Roles and keys that are plain words
// are not marked, because scripts compare them; nor is white space at the ends of a text, because scripts strip it.
// Used by one thread. Invariant: begin_ and end_ do not occur in the messages as they came.
class CallerMarks {
 public:
  // `tokenizer` outlives this object. Throws an Error if the messages use all characters of the private area.
  CallerMarks(const Tokenizer& tokenizer, nlohmann::ordered_json& messages);

  // Returns `text` without the marks; special tokens are not recognised in marked parts. Throws an Error if the
  // function kept only one of a pair of marks, or a part of one.
  SegmentedText segments(const std::string& text) const;

 private:
  void choose(const nlohmann::ordered_json& messages);
  void mark_message(nlohmann::ordered_json& message) const;
  void mark(nlohmann::ordered_json& value) const;
  std::string marked(const std::string& text) const;

  const Tokenizer& tokenizer_;
  std::string begin_, end_;
};

}  // namespace mortise
