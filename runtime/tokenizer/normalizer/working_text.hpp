// runtime/tokenizer/normalizer/working_text.hpp: a text on its way from the input to the pre-tokenizer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tokenizer/limits.hpp"

namespace mortise::tokenizer {

// `origin_end`: so many bytes at the start come from the first character of the whole input. Metaspace's prepend_scheme
// "first" asks for that, and `tokenizers` answers it for the text as it came, not for what a normalizer made of it.
struct WorkingText {
  std::string text;
  std::size_t origin_end;
  bool starts_input;
  GrowthLimit growth;
  const TimeLimit* time;

  // `section` is a part of the input, or all of it; `time` must outlive the text.
  WorkingText(std::string_view section, bool starts_input, const TimeLimit& time);
};

}  // namespace mortise::tokenizer
