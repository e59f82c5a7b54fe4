// runtime/tokenizer/text_segment.hpp: parts of a text that may, or may not, contain special tokens.
#pragma once

#include <string>
#include <vector>

namespace mortise {

struct TextSegment {
  std::string text;
  bool special_tokens = true;  // whether "<|im_end|>" in it is the token of this name
};

// One text. Words may extend over several segments, characters may not.
using SegmentedText = std::vector<TextSegment>;

inline std::string plain_text(const SegmentedText& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace mortise
