// runtime/loader/running_calls.hpp: which calls into plugins are running at this moment, in every thread of the
// process. A watchdog reads it to find calls that take too long, and the handlers of process_end.hpp to name the plugin
// that ended the process. A call costs a few stores and no lock; nothing here allocates after a thread's first call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mortise {

// A copy of the text that is never freed, NUL-terminated; equal texts share one. Handlers that run while the process
// ends read names, so names must outlive everything. [any thread]
const char* lasting_text(std::string_view text);

enum class CallKind : std::uint8_t {
  kControl,  // into an instance that is not active: create, load, activate, ...
  kStep,     // into an active instance
};

// A call as an observer sees it.
struct CallInProgress {
  std::uint64_t serial = 0;        // no two calls of a thread have the same
  const char* part = nullptr;      // lasting: "proposer 'ngram' (ngram.so)"
  const char* function = nullptr;  // static: "propose"
  CallKind kind = CallKind::kControl;
};

// The last call that began, in memory that another process maps too: it reads there which call ran when this process
// came to its end. One record a process; calls of several threads at a time take turns in it.
struct CallRecord {
  std::atomic<std::uint64_t> num_changes{0};  // calls that began or ended until now
  std::atomic<bool> runs{false};              // it has not returned
  std::atomic<CallKind> kind{CallKind::kControl};
  std::uint64_t number = 0;  // of the call among those of this part and function, from 1 on
  char part[240] = {};       // NUL-terminated, as CallInProgress has them
  char function[64] = {};
};
// From now on calls are noted there too, for good. The record outlives the process's calls.
void record_calls(CallRecord& record);

// The calls of one thread, innermost last. A plugin may call the host, which may call another plugin. Never freed: a
// thread that ends leaves its stack to a later one.
class CallStack {
 public:
  static constexpr std::size_t kMaxDepth = 8;  // deeper calls are not seen

  // The calling thread's, made at its first call; never null.
  static CallStack& of_this_thread();
  // The calling thread's, or null when it has made no call. Safe in a signal handler.
  static CallStack* of_this_thread_if_any();
  // All of the process, in no order: `for (const CallStack* s = CallStack::first(); s != nullptr; s = s->next())`.
  static const CallStack* first();
  const CallStack* next() const { return next_; }

  void begin(const char* part, const char* function, CallKind kind);
  void end() {
    const std::size_t depth = depth_.load(std::memory_order_relaxed) - 1;
    depth_.store(depth, std::memory_order_release);
    if (is_recorded()) note_end(depth);
  }
  std::size_t depth() const;  // of the calls that are seen
  // False: the call at this depth ended, or began, while it was read.
  bool read(std::size_t depth, CallInProgress& call) const;

 private:
  struct Owner;
  static bool is_recorded() { return recorded_.load(std::memory_order_relaxed); }
  void note_end(std::size_t depth) const;
  inline static std::atomic<bool> recorded_{false};
  friend void record_calls(CallRecord& record);
  struct Frame {
    std::atomic<std::uint64_t> serial{0};  // 0 while the rest is being written
    std::atomic<const char*> part{nullptr};
    std::atomic<const char*> function{nullptr};
    std::atomic<CallKind> kind{CallKind::kControl};
  };

  std::array<Frame, kMaxDepth> frames_;
  std::atomic<std::size_t> depth_{0};
  std::uint64_t next_serial_ = 1;  // its thread only
  std::atomic<bool> taken_{true};
  CallStack* next_ = nullptr;  // set once, before others see this
};

// Stands around one call into a plugin. `part` must be lasting, `function` static.
class RunningCall {
 public:
  RunningCall(const char* part, const char* function, CallKind kind) : stack_(CallStack::of_this_thread()) {
    stack_.begin(part, function, kind);
  }
  ~RunningCall() { stack_.end(); }
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  CallStack& stack_;
};

}  // namespace mortise
