// runtime/cli/repl/terminal.hpp: what LineEditor has to know of the terminal and libedit does not tell: its signals,
// its width, whether it takes control sequences, and that it speaks UTF-8.
#pragma once

#include <array>
#include <csignal>
#include <cstdio>

namespace mortise {

// While a line is edited the terminal is in a state that no shell wants to find: signals that end or stop the program
// are noted, so that it can be put right first. One at a time: handlers belong to the process.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // Whether one has come that was not taken, Ctrl-C included.
  static bool any();
  // Each tells of its signal once.
  static bool take_resized();
  static bool take_continued();
  static int take_ending();  // the signal that is to end or stop the program, 0 for none

  // Lets a signal do what it does without a handler. Returns when that was a stop, and it is over.
  static void let_happen(int signal);

 private:
  static constexpr std::array kSignals = {SIGWINCH, SIGCONT, SIGTSTP, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> previous_;
};

// libedit converts by the locale. One that is not UTF-8 is most often none at all (a container, ssh), on a terminal
// that speaks UTF-8 like all.
void use_utf8_locale();

bool takes_control_sequences();  // by TERM
int columns_of(std::FILE* screen);

}  // namespace mortise
