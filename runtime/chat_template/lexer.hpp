// runtime/chat_template/lexer.hpp: divides a template into tokens, with Jinja's rules for white space as transformers
// sets them: trim_blocks, lstrip_blocks, no newline at the end.
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
  std::string text;  // for a string, its value
  int line;          // from 1
};

// The tokens of the whole template; kEnd is last. Throws an Error that begins with "line N: ".
// REQUIRES: valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace mortise::jinja
