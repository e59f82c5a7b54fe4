// runtime/cli/stop_signals.hpp: handles Ctrl-C and SIGTERM for commands that have to clean up.
#pragma once

#include <csignal>

namespace mortise {

// While a StopSignals lives, the first SIGINT and the first SIGTERM are recorded, and a second one of the same kind
// ends the program at once. At most one lives at a time, on the main thread; received() may be called on any thread.
// Invariant: once received() is true, it stays true.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool received();
  // Returns the code with which a shell reports a program that a signal ended: 128 + the signal's number.
  static int exit_code();

 private:
  struct sigaction previous_int_ {
  }, previous_term_{};
};

}  // namespace mortise
