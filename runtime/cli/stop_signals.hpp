// runtime/cli/stop_signals.hpp: Ctrl-C and SIGTERM for a command that has something to tidy up.
#pragma once

#include <csignal>

namespace mortise {

// While one lives, the first SIGINT or SIGTERM is remembered; the second one ends the program at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool received();
  // As a shell reports a program that a signal ended: 128 + its number.
  static int exit_code();

 private:
  struct sigaction previous_int_ {
  }, previous_term_{};
};

}  // namespace mortise
