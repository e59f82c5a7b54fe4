// runtime/jsonl/progress.hpp: how far a run over a file of lines is. On a terminal a bar that is drawn over itself;
// elsewhere nothing until the closing line.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace mortise {

struct ProgressState {
  std::uint64_t num_lines = 0;                     // whose results are written, those of earlier runs included
  std::uint64_t num_failed = 0;                    // of them
  std::uint64_t lines_before = 0;                  // of them, by earlier runs
  std::uint64_t num_tokens = 0;                    // prompt and generated, of this run
  std::uint64_t bytes_done = 0, bytes_before = 0;  // of the input, by the same rules
  std::optional<std::uint64_t> bytes_total;        // of the input, when it is known
};

// "[=====>    ]  48%  1,234 lines, 56.7 lines/s, 8,901 tokens/s, 1:02 left" in `width` columns; if that is too narrow,
// without the bar. Rates are of this run, `elapsed_s` long; without bytes_total there is neither bar nor time left.
std::string progress_bar(const ProgressState& state, double elapsed_s, std::size_t width);

// "1,234 lines, 2 failed, in 21.8 s (56.7 lines/s, 8,901 tokens/s)"
std::string progress_summary(const ProgressState& state, double elapsed_s);

class Progress {
 public:
  // `label` begins every line: "mortise: batch: ".
  explicit Progress(std::string label);

  void begin(const ProgressState& state);
  // Draws at most some times a second.
  void update(const ProgressState& state);
  // Takes the bar away, so that other lines can follow on standard error.
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
