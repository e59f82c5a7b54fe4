// runtime/execution/warm_up_progress.hpp: says how far the trial steps of a start are, if they take longer than a
// moment: on a terminal with a line that is drawn over itself and taken away at the end, elsewhere in the log.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace mortise {

// "NVIDIA H200: trying steps of all sizes, 5 of 15, 2 s"
std::string warm_up_text(const std::string& device, std::size_t num_done, std::size_t num_steps, double elapsed_s);

class WarmUpProgress {
 public:
  WarmUpProgress(std::string device, std::size_t num_steps);
  ~WarmUpProgress();  // takes the line away
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
