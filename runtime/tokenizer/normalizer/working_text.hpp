// runtime/tokenizer/normalizer/working_text.hpp: a text between the input and the pre-tokenizer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tokenizer/limits.hpp"

namespace mortise::tokenizer {

// `origin_end`: the number of bytes at the start that come from the first character of the whole input. Metaspace's
// prepend_scheme "first" needs it, because `tokenizers` looks at the original text instead of the normalised one.
struct WorkingText {
  std::string text;
  std::size_t origin_end;
  bool starts_input;
  GrowthLimit growth;
  const TimeLimit* time;

  // `section` is a part of the input, or the whole input. `time` must outlive the text.
  WorkingText(std::string_view section, bool starts_input, const TimeLimit& time);
};

}  // namespace mortise::tokenizer
