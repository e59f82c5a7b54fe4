// runtime/jsonl/progress.hpp: shows the progress of a run over a file of lines. On a terminal it is a bar that is
// redrawn; elsewhere only the closing line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mortise {

struct ProgressState {
  std::uint64_t num_lines = 0;                     // with written results, including those of earlier runs
  std::uint64_t num_failed = 0;                    // of num_lines
  std::uint64_t lines_before = 0;                  // of num_lines, by earlier runs
  std::uint64_t num_tokens = 0;                    // of prompts and results, in this run
  std::uint64_t bytes_done = 0, bytes_before = 0;  // of the input; counted like lines
  std::optional<std::uint64_t> bytes_total;        // of the input, if it is known
};

// Returns a line such as "[=====>    ]  48%  1,234 lines, 56.7 lines/s, 8,901 tokens/s, 1:02 left" in `width` columns;
// without the bar if there is no room. Rates are those of this run, which has taken `elapsed_s`. Without bytes_total
// there is neither a bar nor a remaining time.
std::string progress_bar(const ProgressState& state, double elapsed_s, std::size_t width);

// Returns a line such as "1,234 lines, 2 failed, in 21.8 s (56.7 lines/s, 8,901 tokens/s)"
std::string progress_summary(const ProgressState& state, double elapsed_s);

// Draws the progress of one run. Used by one thread. Invariant: the bar is on the terminal only while drawn_ is true.
class Progress {
 public:
  // Every line begins with `label`: "mortise: batch: ".
  explicit Progress(std::string label);

  void begin(const ProgressState& state);
  // Draws, but only a few times a second.
  void update(const ProgressState& state);
  // Removes the bar, so that other lines can be written to standard error.
  void clear();
  // clear(), then the closing line.
  void finish(const ProgressState& state);
  double elapsed_s() const;

 private:
  using Clock = std::chrono::steady_clock;
  const std::string label_;
  const bool on_terminal_;
  Clock::time_point start_ = Clock::now(), last_drawn_ = start_;
  bool drawn_ = false;
};

}  // namespace mortise
