// runtime/jsonl/ordered_lines.hpp: lines in, results out in the same order, many lines at work at a time.
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
  std::uint64_t num_tokens = 0;  // prompt and generated
  bool from_earlier_run = false;
};

// Takes the result of a line, once, on any thread; may be called after the run has ended. When all copies of it are
// destroyed without a call, whoever was to make the result has failed, and the run ends with an Error.
using FinishLine = std::function<void(LineResult)>;

// Starts the work on a line and returns the number of sequences that it keeps busy. An Error that it throws ends the
// run: what is wrong with the line itself is a result.
using StartLine = std::function<std::size_t(const InputLine& line, FinishLine finish)>;

struct OrderedLinesLimits {
  // Sequences at work: enough to fill batches of every size and to let the scheduler choose.
  std::size_t max_sequences = 1024;
  // Bytes of lines at work and of results that wait in memory for one before them: a token has two bytes of text or
  // more, and takes eight with the engine. A single line may be above it.
  std::size_t max_bytes = std::size_t{64} << 20;
};

struct OrderedLinesEvents {
  // The result of the next line, in order. An Error that it throws ends the run.
  std::function<void(const InputLine& line, LineResult result)> write;
  // Between any two things, several times a second at least; true ends the run here.
  std::function<bool()> tick;
};

// Runs all lines that are left in `in`. False: tick() ended it, and lines at work are left alone. `write` gets lines
// without their text. A result that must wait for the result of an earlier line is kept in `waiting` (started; its
// results of lines that `start` finishes at once stay where they are), or in memory where that is nullptr or full.
bool run_ordered_lines(InputLines& in, const OrderedLinesLimits& limits, const StartLine& start,
                       const OrderedLinesEvents& events, WaitingLines* waiting = nullptr);

}  // namespace mortise
