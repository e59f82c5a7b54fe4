// runtime/cli/repl/terminal.hpp: properties of the terminal that LineEditor needs besides libedit: signals, width,
// control sequences, UTF-8.
#pragma once

#include <array>
#include <csignal>
#include <cstdio>

namespace mortise {

// While a line is edited, the terminal's settings would disturb a shell. So signals that end or stop the program are
// recorded, and the settings are restored first. At most one object exists at a time, because handlers belong to the
// process. Handlers only set flags; any thread may read them. Invariant: a signal that the program's caller ignored
// stays ignored.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // Returns whether a signal has come and was not taken, Ctrl-C included.
  static bool any();
  // Each of these returns true once for each time that its signal came.
  static bool take_resized();
  static bool take_continued();
  static int take_ending();  // the signal that should end or stop the program; 0: none

  // Lets a signal have its default effect. If that is a stop, returns when the program continues.
  static void let_happen(int signal);

 private:
  static constexpr std::array kSignals = {SIGWINCH, SIGCONT, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> previous_;
};

// Sets a UTF-8 locale, because libedit uses the locale's encoding. A locale without UTF-8 is usually just unset (in a
// container, over ssh), while the terminal uses UTF-8.
void use_utf8_locale();

bool takes_control_sequences();  // depends on TERM
int columns_of(std::FILE* screen);

}  // namespace mortise
