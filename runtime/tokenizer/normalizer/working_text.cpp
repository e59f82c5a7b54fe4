#include "tokenizer/normalizer/working_text.hpp"

#include "tokenizer/characters/utf8.hpp"

namespace mortise::tokenizer {

WorkingText::WorkingText(std::string_view section, bool starts_input, const TimeLimit& time)
    : text(section),
      origin_end(starts_input && !section.empty() ? character_length(section[0]) : 0),
      starts_input(starts_input),
      growth(section.size()),
      time(&time) {}

}  // namespace mortise::tokenizer
