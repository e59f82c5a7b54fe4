// runtime/execution/warm_up_progress.hpp: shows the progress of the warm-up steps of a start, if they take longer than
// a moment. On a terminal it redraws one line and erases it at the end; otherwise it logs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace mortise {

// Describes the progress of a warm-up: "NVIDIA H200: trying steps of all sizes, 5 of 15, 2 s"
std::string warm_up_text(const std::string& device, std::size_t num_done, std::size_t num_steps, double elapsed_s);

// The progress of one start. Invariant: the line is on the terminal only while this exists. Used only by the thread
// that runs steps.
class WarmUpProgress {
 public:
  WarmUpProgress(std::string device, std::size_t num_steps);
  ~WarmUpProgress();  // erases the line
  WarmUpProgress(const WarmUpProgress&) = delete;
  WarmUpProgress& operator=(const WarmUpProgress&) = delete;

  void step_done();
  double elapsed_s() const;

 private:
  using Clock = std::chrono::steady_clock;
  const std::string device_;
  const std::size_t num_steps_;
  const bool on_terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point told_ = start_;
  std::size_t num_done_ = 0;
  bool drawn_ = false;
};

}  // namespace mortise
