// runtime/openai/observer.hpp: who measures answers while they are made.
#pragma once

#include <chrono>
#include <optional>

#include "delivery/delta.hpp"

namespace mortise {

// Of one choice: kept by who reads its deltas, for the observer.
struct ChoiceTimes {
  std::chrono::steady_clock::time_point arrival;  // of its body
  // None: it has not come to that.
  std::optional<std::chrono::steady_clock::time_point> started = {}, first_token = {}, last_token = {};
};

class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // Each delta of a choice in order, before it is answered with. Must not throw. [any thread]
  virtual void saw(ChoiceTimes& times, const Delta& delta) = 0;
};

}  // namespace mortise
