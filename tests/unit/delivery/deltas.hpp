// tests/unit/delivery/deltas.hpp: deltas as an engine sends them.
#pragma once

#include <chrono>
#include <cstdint>

#include "delivery/delta.hpp"

namespace mortise::test {

// One token whose text is one letter, sent `step` milliseconds after the clock's beginning.
inline Delta token_delta(std::int32_t choice, std::int32_t id, int step = 0) {
  Delta delta;
  delta.request = 7;
  delta.choice = choice;
  delta.tokens.push_back({.id = id, .logprob = -1.0f, .rank = 1, .top = {{id, -1.0f}}});
  delta.text = static_cast<char>('a' + id % 26);
  delta.sent = std::chrono::steady_clock::time_point(std::chrono::milliseconds(step));
  return delta;
}

inline Delta end_delta(std::int32_t choice, FinishReason finish = FinishReason::kLength) {
  Delta delta;
  delta.request = 7;
  delta.choice = choice;
  delta.finish = finish;
  delta.seed = 11;
  delta.usage.completion_tokens = 3;
  return delta;
}

}  // namespace mortise::test
