#include "loader/running_calls.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace mortise {
namespace {

// Globals, because handlers of signals and of exit() read them.
std::atomic<CallStack*> all_stacks{nullptr};
CallRecord* record = nullptr;  // set once, before other threads read it

// The number of calls so far for each part and function. Both names are lasting texts.
struct CallCounts {
  std::mutex mutex;  // guards numbers and the texts of the record
  std::map<std::pair<const char*, const char*>, std::uint64_t> numbers;
};
CallCounts& counts() {
  static auto* all = new CallCounts;
  return *all;
}

void copy_text(std::span<char> to, const char* from) {
  const std::size_t size = std::min(std::strlen(from), to.size() - 1);
  std::memcpy(to.data(), from, size);
  to[size] = '\0';
}

// REQUIRES: the caller holds the lock of counts().
void write_record(const char* part, const char* function, CallKind kind, std::uint64_t number) {
  record->kind.store(kind, std::memory_order_relaxed);
  record->number = number;
  copy_text(record->part, part);
  copy_text(record->function, function);
  record->runs.store(true, std::memory_order_relaxed);
  record->num_changes.fetch_add(1, std::memory_order_release);
}
thread_local CallStack* own_stack = nullptr;  // a plain pointer, so it is valid even after the thread's destructors

}  // namespace

const char* lasting_text(std::string_view text) {
  static auto* mutex = new std::mutex;
  static auto* texts = new std::set<std::string, std::less<>>;  // never destroyed; nodes do not move
  const std::lock_guard lock(*mutex);
  const auto known = texts->find(text);
  return (known != texts->end() ? known : texts->emplace(text).first)->c_str();
}

// Returns a thread's stack for reuse when the thread ends.
struct CallStack::Owner {
  ~Owner() {
    // exit() runs this destructor before its handlers, even if a plugin calls it. The handlers must find the running
    // call, so its stack is kept.
    if (own_stack->depth() != 0) return;
    own_stack->taken_.store(false, std::memory_order_release);
    own_stack = nullptr;
  }
};

CallStack& CallStack::of_this_thread() {
  if (own_stack != nullptr) return *own_stack;
  for (CallStack* stack = all_stacks.load(std::memory_order_acquire); stack != nullptr; stack = stack->next_) {
    bool taken = false;
    if (stack->taken_.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) {
      own_stack = stack;
      break;
    }
  }
  if (own_stack == nullptr) {
    auto* stack = new CallStack;
    stack->next_ = all_stacks.load(std::memory_order_relaxed);
    while (!all_stacks.compare_exchange_weak(stack->next_, stack, std::memory_order_release)) {
    }
    own_stack = stack;
  }
  thread_local const Owner owner;
  return *own_stack;
}

CallStack* CallStack::of_this_thread_if_any() {
  return own_stack;
}

const CallStack* CallStack::first() {
  return all_stacks.load(std::memory_order_acquire);
}

void CallStack::begin(const char* part, const char* function, CallKind kind) {
  const std::size_t depth = depth_.load(std::memory_order_relaxed);
  if (depth < kMaxDepth) {
    Frame& frame = frames_[depth];
    frame.serial.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    frame.part.store(part, std::memory_order_relaxed);
    frame.function.store(function, std::memory_order_relaxed);
    frame.kind.store(kind, std::memory_order_relaxed);
    frame.serial.store(next_serial_++, std::memory_order_release);
  }
  if (is_recorded()) {
    const std::lock_guard lock(counts().mutex);
    write_record(part, function, kind, ++counts().numbers[{part, function}]);
  }
  depth_.store(depth + 1, std::memory_order_release);
}

// Notes that a call has returned, to its caller or to the call that it was made in.
void CallStack::note_end(std::size_t depth) const {
  const std::lock_guard lock(counts().mutex);
  if (depth == 0 || depth > kMaxDepth) {
    record->runs.store(false, std::memory_order_relaxed);
    record->num_changes.fetch_add(1, std::memory_order_release);
    return;
  }
  const Frame& frame = frames_[depth - 1];
  const char* const part = frame.part.load(std::memory_order_relaxed);
  const char* const function = frame.function.load(std::memory_order_relaxed);
  write_record(part, function, frame.kind.load(std::memory_order_relaxed), counts().numbers[{part, function}]);
}

void record_calls(CallRecord& to) {
  record = &to;
  CallStack::recorded_.store(true, std::memory_order_release);
}

std::size_t CallStack::depth() const {
  return std::min(depth_.load(std::memory_order_acquire), kMaxDepth);
}

bool CallStack::read(std::size_t depth, CallInProgress& call) const {
  const Frame& frame = frames_[depth];
  call.serial = frame.serial.load(std::memory_order_acquire);
  call.part = frame.part.load(std::memory_order_relaxed);
  call.function = frame.function.load(std::memory_order_relaxed);
  call.kind = frame.kind.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool unchanged = frame.serial.load(std::memory_order_relaxed) == call.serial;
  return unchanged && call.serial != 0 && depth < this->depth();
}

}  // namespace mortise
