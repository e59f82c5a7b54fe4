#include "cli/repl/terminal.hpp"

#include <langinfo.h>
#include <sys/ioctl.h>

#include <clocale>
#include <cstring>
#include <string_view>
#include <utility>

#include "cli/interrupt.hpp"
#include "environment.hpp"

namespace mortise {
namespace {

// Signal handlers can only access globals.
volatile std::sig_atomic_t g_resized = 0;
volatile std::sig_atomic_t g_continued = 0;
volatile std::sig_atomic_t g_ending = 0;

void note_signal(int signal) {
  if (signal == SIGWINCH) {
    g_resized = 1;
  } else if (signal == SIGCONT) {
    g_continued = 1;
  } else {
    g_ending = signal;
  }
  wake_input();
}

int take(volatile std::sig_atomic_t& noted) {
  const int value = noted;
  noted = 0;
  return value;
}

}  // namespace

TerminalSignals::TerminalSignals() {
  take(g_resized);
  take(g_continued);
  take(g_ending);
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous_[i]);
    // A signal that the caller of this program ignored (nohup) stays ignored.
    if (previous_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

TerminalSignals::~TerminalSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
}

bool TerminalSignals::any() {
  return InterruptGuard::interrupted() || g_resized != 0 || g_continued != 0 || g_ending != 0;
}
bool TerminalSignals::take_resized() {
  return take(g_resized) != 0;
}
bool TerminalSignals::take_continued() {
  return take(g_continued) != 0;
}
int TerminalSignals::take_ending() {
  return take(g_ending);
}

void TerminalSignals::let_happen(int signal) {
  struct sigaction noting {};
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigemptyset(&plain.sa_mask);
  sigaction(signal, &plain, &noting);
  ::raise(signal);
  sigaction(signal, &noting, nullptr);
  take(g_continued);  // the program has continued here, so the signal is taken
}

void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

bool takes_control_sequences() {
  const std::optional<std::string> name = environment::read(environment::kTerminal);
  return name && *name != "dumb" && *name != "emacs" && *name != "unknown";
}

int columns_of(std::FILE* screen) {
  winsize size{};
  return ::ioctl(::fileno(screen), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace mortise
