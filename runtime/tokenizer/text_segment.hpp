// runtime/tokenizer/text_segment.hpp: a part of a text of which some parts may spell special tokens and others may not.
#pragma once

#include <string>
#include <vector>

namespace mortise {

struct TextSegment {
  std::string text;
  bool special_tokens = true;  // whether "<|im_end|>" in it is the token of this name
};

// One text: words may reach from one part into the next, characters may not.
using SegmentedText = std::vector<TextSegment>;

inline std::string plain_text(const SegmentedText& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace mortise
