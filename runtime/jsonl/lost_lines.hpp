// runtime/jsonl/lost_lines.hpp: notices lines that never get a result, because whoever was to make it has failed.
// Without that a run would wait for them for ever.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "jsonl/ordered_lines.hpp"

namespace mortise {

class LostLines {
 public:
  // `finish` as it is; but the line is lost when all copies of the result are destroyed and none was called.
  FinishLine watch(FinishLine finish, std::size_t line_number) const;
  // A line that was lost; the smallest number of those that are known. [any thread]
  std::optional<std::size_t> first() const;

 private:
  struct State;
  class Watch;
  const std::shared_ptr<State> state_ = make_state();  // finishers may outlive this
  static std::shared_ptr<State> make_state();
};

}  // namespace mortise
