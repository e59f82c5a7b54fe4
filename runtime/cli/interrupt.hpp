// runtime/cli/interrupt.hpp: Ctrl-C ends what runs, not the program; and waiting for input without missing a signal.
#pragma once

#include <csignal>

namespace mortise {

// True from Ctrl-C on until cleared. While an InterruptGuard lives SIGINT sets it instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  static void clear();

 private:
  struct sigaction previous_;
};

// Waits until the descriptor has something to read, or is at its end. Returns false when `arrived()` is true. A signal
// handler sets that state and then calls wake_input(), from any thread.
bool wait_for_input(int descriptor, bool (*arrived)());
void wake_input();  // async-signal-safe

}  // namespace mortise
