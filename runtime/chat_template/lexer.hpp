// runtime/chat_template/lexer.hpp: cuts a template into tokens, with Jinja's rules for white space as transformers sets
// them: trim_blocks, lstrip_blocks, no newline at the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::jinja {

struct Token {
  enum class Kind {
    kData,
    kOutputBegin,
    kOutputEnd,
    kTagBegin,
    kTagEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kSign,
    kEnd
  };
  Kind kind;
  std::string text;  // of a string: what it stands for
  int line;          // from 1
};

// The whole template, kEnd last. Throws an Error that begins with "line N: ". REQUIRES: valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace mortise::jinja
