// tests/unit/engine/transcript.hpp: everything that a request's choices brought, as text that tests compare: floats to
// the bit.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <map>
#include <string>
#include <vector>

#include "engine_fixture.hpp"

namespace mortise::test {

using Choices = std::map<std::int32_t, Collector::Choice>;

inline std::string transcript(const Choices& choices) {
  std::string text;
  const auto add = [&](const std::vector<TokenInfo>& tokens) {
    for (const TokenInfo& token : tokens) {
      text += fmt::format(" {}/{:08x}/{}", token.id, std::bit_cast<std::uint32_t>(token.logprob), token.rank);
      for (const auto& [id, logprob] : token.top) {
        text += fmt::format(",{}:{:08x}", id, std::bit_cast<std::uint32_t>(logprob));
      }
    }
  };
  for (const auto& [index, choice] : choices) {
    text += fmt::format("choice {}: prompt", index);
    add(choice.prompt);
    text += "; tokens";
    add(choice.tokens);
    text +=
        fmt::format("; '{}' {} {}\n", choice.text, to_string(choice.last.finish), choice.last.stop_token.value_or(-1));
  }
  return text;
}

}  // namespace mortise::test
