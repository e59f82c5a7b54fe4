// runtime/cli/interrupt.hpp: lets Ctrl-C end the current work instead of the program, and waits for input without
// missing a signal.
#pragma once

#include <csignal>

namespace mortise {

// While an InterruptGuard lives, SIGINT sets a flag instead of ending the program. The flag stays set until it is
// cleared. At most one lives at a time, on the main thread; interrupted() and clear() may be called on any thread.
// Invariant: the destructor restores the handling of SIGINT that the constructor found.
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

// Waits until the descriptor has input or is at its end. Returns false if `arrived()` is true. A signal handler sets
// that state and then calls wake_input(), from any thread.
bool wait_for_input(int descriptor, bool (*arrived)());
void wake_input();  // async-signal-safe

}  // namespace mortise
