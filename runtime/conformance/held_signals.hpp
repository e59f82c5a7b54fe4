// runtime/conformance/held_signals.hpp: what Ctrl-C does during a check: the check ends its case and removes its files.
#pragma once

#include <array>
#include <csignal>
#include <string>

#include "error.hpp"

namespace mortise::conformance {

// A signal asked this process to end. A value.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);
  // Returns the exit code that a shell reports for a program that this signal ended.
  int exit_code() const { return 128 + signal_; }

 private:
  int signal_;
};

// While one of these lives, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE, except those that this process ignores, do
// not end it but wait to be taken. A signal that nobody has taken ends the process when the last of these objects ends.
// Objects may be nested. Invariant: the destructor restores the handling that the constructor found. Used by one
// thread; a signal may arrive on any.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // Takes the signal that came last. Returns 0 if none did.
  static int take();
  // Lets the signals end this process again. For a process that was forked while they were held.
  static void let_through();

 private:
  std::array<struct sigaction, 5> before_ = {};
};

}  // namespace mortise::conformance
