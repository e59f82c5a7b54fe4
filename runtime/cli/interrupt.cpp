#include "cli/interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mortise {
namespace {

// Signal handlers can only access globals.
volatile std::sig_atomic_t g_interrupted = 0;
// Handlers write to this pipe, because a signal may arrive on any thread, and just before the wait begins.
std::array<int, 2> g_wake = {-1, -1};

void open_wake_pipe() {
  if (g_wake[0] < 0 && ::pipe2(g_wake.data(), O_CLOEXEC | O_NONBLOCK) != 0) g_wake = {-1, -1};
}

void drain_wake_pipe() {
  std::array<char, 64> bytes;
  while (g_wake[0] >= 0 && ::read(g_wake[0], bytes.data(), bytes.size()) > 0) {
  }
}

}  // namespace

InterruptGuard::InterruptGuard() {
  open_wake_pipe();
  clear();
  struct sigaction action {};
  action.sa_handler = [](int) {
    g_interrupted = 1;
    wake_input();
  };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // only waits for a person should be interrupted, and they use poll()
  sigaction(SIGINT, &action, &previous_);
}
InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous_, nullptr);
}
bool InterruptGuard::interrupted() {
  return g_interrupted != 0;
}
void InterruptGuard::clear() {
  g_interrupted = 0;
}

void wake_input() {
  const int error = errno;
  // If the pipe is full, its reader wakes anyway.
  [[maybe_unused]] const ssize_t written = ::write(g_wake[1], "", 1);
  errno = error;
}

bool wait_for_input(int descriptor, bool (*arrived)()) {
  open_wake_pipe();
  while (true) {
    drain_wake_pipe();  // before the check: a later signal stays in the pipe and ends the wait
    if (arrived()) return false;
    std::array<pollfd, 2> waited = {{{descriptor, POLLIN, 0}, {g_wake[0], POLLIN, 0}}};
    const int ready = ::poll(waited.data(), waited.size(), -1);
    if (ready < 0 && errno != EINTR) return true;  // the read will report the problem
    if (ready > 0 && waited[0].revents != 0) return true;
  }
}

}  // namespace mortise
