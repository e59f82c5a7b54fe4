// runtime/openai/observer.hpp: the interface of metrics to the answers that are being made.
#pragma once

#include <chrono>
#include <optional>

#include "delivery/delta.hpp"

namespace mortise {

// The times of one choice. The reader of its deltas keeps them for the observer.
struct ChoiceTimes {
  std::chrono::steady_clock::time_point arrival;  // arrival of its body
  // nullopt: has not happened.
  std::optional<std::chrono::steady_clock::time_point> started = {}, first_token = {}, last_token = {};
};

// Sees all deltas of all answers; those of one choice in order. Thread-safe. Invariant: an observer changes no delta.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  // Called for each delta of a choice, in order, before the delta is sent to the client. Must not throw. [any thread]
  virtual void saw(ChoiceTimes& times, const Delta& delta) = 0;
};

}  // namespace mortise
