#include "cli/stop_signals.hpp"

namespace mortise {
namespace {

volatile std::sig_atomic_t g_signal = 0;  // signal handlers can only access globals

}  // namespace

StopSignals::StopSignals() {
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = [](int number) { g_signal = number; };
  // SA_RESETHAND: the second signal has its default action, which ends the program. No SA_RESTART: reads and polls
  // return.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

bool StopSignals::received() {
  return g_signal != 0;
}

int StopSignals::exit_code() {
  return 128 + g_signal;
}

}  // namespace mortise
