// tests/property/difference.hpp: where two runs of the same requests differ, bit by bit.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "mix.hpp"

namespace mortise::test {

// The first difference between two lists, or "".
inline std::string difference(const std::vector<TokenInfo>& a, const std::vector<TokenInfo>& b, const char* what) {
  if (a.size() != b.size()) {
    return std::string(what) + ": " + std::to_string(a.size()) + " tokens instead of " + std::to_string(b.size());
  }
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string at = std::string(what) + " " + std::to_string(i) + ": ";
    if (a[i].id != b[i].id) return at + "token " + std::to_string(a[i].id) + " instead of " + std::to_string(b[i].id);
    if (bits(a[i].logprob) != bits(b[i].logprob)) return at + "another log probability";
    if (a[i].rank != b[i].rank) return at + "another rank";
    if (a[i].top.size() != b[i].top.size()) return at + "another number of alternatives";
    for (std::size_t j = 0; j < a[i].top.size(); ++j) {
      if (a[i].top[j].first != b[i].top[j].first || bits(a[i].top[j].second) != bits(b[i].top[j].second)) {
        return at + "another alternative " + std::to_string(j);
      }
    }
  }
  return "";
}

inline std::string difference(const Outcomes& together, const Outcomes& alone) {
  if (together.size() != alone.size()) return "another number of choices";
  for (const auto& [key, expected] : alone) {
    const ChoiceOutcome& got = together.at(key);
    std::string text = difference(got.tokens, expected.tokens, "token");
    if (text.empty()) text = difference(got.prompt, expected.prompt, "prompt score");
    if (text.empty() && got.text != expected.text) text = "another text";
    if (text.empty() && got.finish != expected.finish) text = "another finish reason";
    if (text.empty() && got.error != expected.error) text = "another error, '" + got.error + "'";
    if (!text.empty())
      return "request " + std::to_string(key.first) + " choice " + std::to_string(key.second) + ": " + text;
  }
  return "";
}

}  // namespace mortise::test
