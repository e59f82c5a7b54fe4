// runtime/cli/caller_marks.hpp: finds which parts of the text that a script's chat_template returns were copied from
// the messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/text_segment.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// Puts two characters of Unicode's private area around each text of `messages`, which the function returns with them.
// The characters are two that the messages do not have. They also stand around the first character of each special
// token that a text spells: the function may cut this token out of the text. Not marked: roles and keys that are plain
// words, since scripts ask for them, and white space at the ends of a text, since scripts strip it.
class CallerMarks {
 public:
  // `tokenizer` outlives it. Throws an Error when the messages have all characters of the private area.
  CallerMarks(const Tokenizer& tokenizer, nlohmann::ordered_json& messages);

  // `text` without the characters; special tokens are not to be found in what stood between them. Throws an Error when
  // the function kept one of a pair, or a part of one.
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
