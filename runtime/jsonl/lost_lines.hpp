// runtime/jsonl/lost_lines.hpp: notices lines that will never get a result because the code that should make it has
// failed. A run would otherwise wait for them forever.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "jsonl/ordered_lines.hpp"

namespace mortise {

// The lines that have lost their result. Thread-safe. Invariant: a line whose result was given is never reported as
// lost.
class LostLines {
 public:
  // Returns a copy of `finish`. If all its copies are destroyed without a call, the line is lost.
  FinishLine watch(FinishLine finish, std::size_t line_number) const;
  // Returns the smallest number of a lost line, or nullopt. [any thread]
  std::optional<std::size_t> first() const;

 private:
  struct State;
  class Watch;
  const std::shared_ptr<State> state_ = make_state();  // shared, because the functions may outlive this object
  static std::shared_ptr<State> make_state();
};

}  // namespace mortise
