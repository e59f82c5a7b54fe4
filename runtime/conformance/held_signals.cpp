#include "conformance/held_signals.hpp"

#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

namespace mortise::conformance {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

// Signal handlers can only access globals.
volatile std::sig_atomic_t g_held = 0;
int g_num_holders = 0;  // used by the thread that holds

void hold(int signal) {
  g_held = signal;
}

}  // namespace

Interrupted::Interrupted(int signal)
    : Error(fmt::format("interrupted by SIG{}", sigabbrev_np(signal))), signal_(signal) {}

HeldSignals::HeldSignals() {
  static_assert(std::tuple_size_v<decltype(before_)> == kEnding.size());
  if (g_num_holders++ == 0) g_held = 0;
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;  // nohup ignores SIGHUP
    struct sigaction action {};
    action.sa_handler = hold;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(kEnding[i], &action, nullptr);
  }
}

HeldSignals::~HeldSignals() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &before_[i], nullptr);
  if (--g_num_holders == 0 && g_held != 0) ::raise(g_held);
}

int HeldSignals::take() {
  const int signal = g_held;
  g_held = 0;
  return signal;
}

void HeldSignals::let_through() {
  for (const int signal : kEnding) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == hold) ::signal(signal, SIG_DFL);
  }
}

}  // namespace mortise::conformance
