// runtime/conformance/held_signals.hpp: what Ctrl-C does during a check: the check ends its case and removes its files.
#pragma once

#include <csignal>
#include <string>

namespace mortise::conformance {

// While one of these lives, SIGINT, SIGTERM and SIGHUP, except those that this process ignores, do not end it but wait
// to be taken. A signal that nobody has taken ends the process when the last of these objects ends. Objects may be
// nested. Invariant: the destructor restores the handling that the constructor found. Used by one thread; a signal may
// arrive on any.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Takes the signal that came last, if one did. Returns its name, "SIGINT", or an empty text.
  static std::string take();
  // For a process that was forked meanwhile: the signals end it.
  static void let_through();

 private:
  struct sigaction before_[3] = {};
};

}  // namespace mortise::conformance
