// runtime/cli/repl/figures.hpp: the figures of /stats: speed of the last answer and of all answers, and the engine's
// counters.
#pragma once

#include <optional>
#include <string>

#include "cli/generation.hpp"
#include "engine/engine.hpp"

namespace mortise {

// Draws a bar for the acceptance rate at each draft position, one line per position. Empty if nothing was drafted.
std::string acceptance_bars(const ProposerStats& stats);

// Sums of the answers' times and tokens. Used by one thread. Invariant: last_ has a value exactly when all_ counts an
// answer.
class Figures {
 public:
  void add(const Generation& generation);

  std::string text(const EngineStats& stats, const EngineLimits& limits) const;

 private:
  struct Speed {
    std::uint64_t num_answers = 0;
    std::uint64_t num_tokens = 0;
    std::uint64_t num_timed = 0;  // tokens after the first of each answer, generated in decode_s
    double decode_s = 0;
    double first_token_s = 0;  // sum over all answers
  };

  static Speed speed_of(const Generation& generation);
  static std::string show(const Speed& speed);

  std::optional<Speed> last_;
  Speed all_;
};

}  // namespace mortise
