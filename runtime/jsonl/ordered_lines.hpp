// runtime/jsonl/ordered_lines.hpp: works on many lines at a time and returns their results in the order of the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "jsonl/input_lines.hpp"
#include "jsonl/waiting_lines.hpp"

namespace mortise {

struct LineResult {
  std::string text;
  bool failed = false;
  std::uint64_t num_tokens = 0;  // of prompts and results
  bool from_earlier_run = false;
};

// Takes the result of a line. Call it once, on any thread, even after the run has ended. If all copies are destroyed
// without a call, the code that should have made the result has failed, and the run ends with an Error.
using FinishLine = std::function<void(LineResult)>;

// Starts the work on a line. Returns the number of sequences that it needs. An Error ends the run, so a problem with
// the line itself must be a result.
using StartLine = std::function<std::size_t(const InputLine& line, FinishLine finish)>;

struct OrderedLinesLimits {
  // Sequences at work: enough to fill batches of every size, and to give the scheduler a choice.
  std::size_t max_sequences = 1024;
  // Bytes of lines at work, and of results in memory that wait for an earlier line. (A token has at least two bytes of
  // text, and takes eight in the engine.) A single line may exceed it.
  std::size_t max_bytes = std::size_t{64} << 20;
};

struct OrderedLinesEvents {
  // Takes the result of the next line, in order. An Error ends the run.
  std::function<void(const InputLine& line, LineResult result)> write;
  // Called several times a second at least. Returning true ends the run.
  std::function<bool()> tick;
};

// Runs all remaining lines of `in`. Returns false if tick() ended the run; lines at work are then abandoned. `write`
// gets lines without their text. A result that must wait for an earlier line is kept in `waiting`, or in memory if
// `waiting` is nullptr or full. Results that `waiting` has from an earlier run stay there until their turn.
// REQUIRES: `waiting` is nullptr or was started.
bool run_ordered_lines(InputLines& in, const OrderedLinesLimits& limits, const StartLine& start,
                       const OrderedLinesEvents& events, WaitingLines* waiting = nullptr);

}  // namespace mortise
