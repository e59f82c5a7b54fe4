// runtime/loader/running_calls.hpp: the calls into plugins that are running at this moment, in every thread of the
// process. A watchdog reads it to find calls that take too long, and the handlers of process_end.hpp to name the plugin
// that ended the process. A call costs a few stores and no lock. Only the first call of a thread allocates memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mortise {

// A NUL-terminated copy of the text that is never freed; equal texts share a copy. Handlers that run while the process
// ends read names, so names must never be destroyed. [any thread]
const char* lasting_text(std::string_view text);

enum class CallKind : std::uint8_t {
  kControl,  // into an instance that is not active: create, load, activate, ..
  kStep,     // into an active instance
};

// A running call as an observer sees it.
struct CallInProgress {
  std::uint64_t serial = 0;        // unique among the calls of a thread
  const char* part = nullptr;      // a lasting text: "proposer 'ngram' (ngram.so)"
  const char* function = nullptr;  // a static text: "propose"
  CallKind kind = CallKind::kControl;
};

// The last call that began, in memory that another process maps, too. That process can read which call ran when this
// process ended. There is one record per process; concurrent calls of several threads overwrite it in turn.
struct CallRecord {
  std::atomic<std::uint64_t> num_changes{0};  // calls that have begun or ended
  std::atomic<bool> runs{false};              // the call has not returned
  std::atomic<CallKind> kind{CallKind::kControl};
  std::uint64_t number = 0;  // the call's number among those of its part and function, from 1 on
  char part[240] = {};       // NUL-terminated, as in CallInProgress
  char function[64] = {};
};
// From now on records calls in `record`, too. The record outlives all calls of the process.
void record_calls(CallRecord& record);

// The running calls of one thread, innermost last. (A plugin may call the host, which may call another plugin.) Never
// freed: a thread that ends leaves its stack to a later thread. Written by its thread, read by any thread. Invariant:
// the frames below depth_ are calls that have not returned.
class CallStack {
 public:
  static constexpr std::size_t kMaxDepth = 8;  // deeper calls are not recorded

  // Returns the calling thread's stack, created at its first call; never null.
  static CallStack& of_this_thread();
  // The calling thread's stack, or null if it has made no call. Safe in a signal handler.
  static CallStack* of_this_thread_if_any();
  // Returns the first of all stacks of the process, which have no order: `for (const CallStack* s = CallStack::first();
  // s != nullptr; s = s->next())`.
  static const CallStack* first();
  const CallStack* next() const { return next_; }

  void begin(const char* part, const char* function, CallKind kind);
  void end() {
    const std::size_t depth = depth_.load(std::memory_order_relaxed) - 1;
    depth_.store(depth, std::memory_order_release);
    if (is_recorded()) note_end(depth);
  }
  std::size_t depth() const;  // number of recorded calls
  // Returns false if the call at this depth began or ended while it was read.
  bool read(std::size_t depth, CallInProgress& call) const;

 private:
  struct Owner;
  static bool is_recorded() { return recorded_.load(std::memory_order_relaxed); }
  void note_end(std::size_t depth) const;
  inline static std::atomic<bool> recorded_{false};
  friend void record_calls(CallRecord& record);
  struct Frame {
    std::atomic<std::uint64_t> serial{0};  // 0 while the other fields are being written
    std::atomic<const char*> part{nullptr};
    std::atomic<const char*> function{nullptr};
    std::atomic<CallKind> kind{CallKind::kControl};
  };

  std::array<Frame, kMaxDepth> frames_;
  std::atomic<std::size_t> depth_{0};
  std::uint64_t next_serial_ = 1;  // used by its thread only
  std::atomic<bool> taken_{true};
  CallStack* next_ = nullptr;  // set once, before other threads see this object
};

// Records one call into a plugin for the length of a scope. `part` must be a lasting text, `function` a static one.
// Invariant: the call is on its thread's stack as long as this. Used by the calling thread.
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
