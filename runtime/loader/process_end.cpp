#include "loader/process_end.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "loader/running_calls.hpp"

namespace mortise {
namespace {

std::atomic<bool> expected{false};  // a global, because handlers of exit() take no argument

// Builds a line for standard error without allocating memory, as signal handlers must.
class Line {
 public:
  Line& operator<<(const char* text) {
    const std::size_t size = std::min(std::strlen(text), sizeof text_ - size_ - 1);
    std::memcpy(text_ + size_, text, size);
    size_ += size;
    return *this;
  }
  void write() {
    text_[size_++] = '\n';
    const char* from = text_;
    while (size_ > 0) {
      const ssize_t written = ::write(STDERR_FILENO, from, size_);
      if (written <= 0) return;
      from += written;
      size_ -= static_cast<std::size_t>(written);
    }
  }

 private:
  char text_[1024];
  std::size_t size_ = 0;
};

// Finds the innermost running call: of the calling thread, else of any thread. `own` says which.
bool innermost_call(CallInProgress& call, bool& own) {
  const CallStack* mine = CallStack::of_this_thread_if_any();
  own = mine != nullptr && mine->depth() > 0 && mine->read(mine->depth() - 1, call);
  if (own) return true;
  for (const CallStack* stack = CallStack::first(); stack != nullptr; stack = stack->next()) {
    if (stack->depth() > 0 && stack->read(stack->depth() - 1, call)) return true;
  }
  return false;
}

void report_exit() {
  if (expected.load(std::memory_order_acquire)) return;
  CallInProgress call;
  bool own = false;
  if (!innermost_call(call, own)) {
    (Line() << "mortise: exit() was called outside of every call into a plugin; a thread of a plugin may have").write();
  } else {
    (Line() << "mortise: " << call.part << ": " << call.function << ": the plugin ended the process"
            << (own ? "" : ", or another thread did during this call"))
        .write();
  }
  ::_exit(EXIT_FAILURE);
}

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    true;
#else
    false;
#endif
#else
    false;
#endif

struct CrashSignal {
  int number;
  const char* name;
};
constexpr std::array<CrashSignal, 5> kCrashSignals = {
    {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}}};

void report_crash(int signal) {
  CallInProgress call;
  bool own = false;
  if (innermost_call(call, own)) {
    const char* name = "a signal";
    for (const CrashSignal& known : kCrashSignals) {
      if (known.number == signal) name = known.name;
    }
    (Line() << "mortise: " << call.part << ": " << call.function << ": "
            << (own ? "the plugin ended the process with " : "during this call another thread ended the process with ")
            << name)
        .write();
  }
  // Entering the handler reset it, and the signal is blocked until the handler returns. Then the process ends as it
  // would have without the handler, including the core dump of the fault.
  ::raise(signal);
}

}  // namespace

void name_plugins_that_end_the_process() {
  std::atexit(report_exit);
  std::at_quick_exit(report_exit);
  if (kSanitized) return;
  for (const CrashSignal& crash : kCrashSignals) {
    struct sigaction known = {}, own = {};
    if (::sigaction(crash.number, nullptr, &known) != 0 || known.sa_handler != SIG_DFL) continue;
    own.sa_handler = report_crash;
    own.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigemptyset(&own.sa_mask);
    ::sigaction(crash.number, &own, nullptr);
  }
}

void expect_process_end() {
  expected.store(true, std::memory_order_release);
}

}  // namespace mortise
