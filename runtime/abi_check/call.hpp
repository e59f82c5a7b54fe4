// runtime/abi_check/call.hpp: one checked call into a part. It checks the rules that hold for every function, and says
// who broke a rule: the part, or its caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "error.hpp"
#include "loader/component.hpp"
#include "mortise/host.h"

namespace mortise::abi_check {

// A function of a table: its name, and what its tag in the header says.
enum class Tag { kAny, kControl, kStep };
enum class State { kAny, kCreated, kActive };
struct Function {
  const char* name;
  Tag tag;
  State state = State::kAny;
};

// What the checks remember of one instance. Created before the instance, and kept until it is destroyed. Invariant:
// memory_ holds exactly the memory of the host that the instance holds, extensions_ the first answer of get_ext to each
// id. Members without a comment are used by the calls of the instance, which come one at a time.
class Instance {
 public:
  explicit Instance(const Component& real);
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Returns the live instance with this handle; null: there is none.
  static std::shared_ptr<Instance> find(const void* handle);
  static void add(const void* handle, std::shared_ptr<Instance> instance);
  static void remove(const void* handle);

  template <typename Table>
  const Table& table() const {
    return *real.table<Table>();
  }
  // Returns a host for the instance. It notes what the instance does against the rules of mortise/host.h.
  const mortise_host* watch(const mortise_host* host);
  // Returns a breach that no call could report, such as one on another thread; "": none. Forgets it. Thread-safe.
  std::string take_pending();
  void add_pending(std::string text);
  // Returns the first answer of get_ext to this id, which later answers must equal. Thread-safe.
  const void* first_answer(const char* id, const void* table);
  // Returns the number of allocations of the host that this instance holds. Thread-safe.
  std::size_t num_allocations();

  const Component& real;
  const std::string name;            // "scheduler 'fcfs' (fcfs.so)"
  std::atomic<bool> is_busy{false};  // a [control] or [step] call is under way. Any thread
  bool is_active = false;
  mortise_activate_args sizes{};  // while active
  // How many objects the instance got from its device and did not return. Shared with the device, which may end later.
  // Any thread
  const std::shared_ptr<std::atomic<std::int64_t>> num_held = std::make_shared<std::atomic<std::int64_t>>(0);

 private:
  struct Host : mortise_host {
    Instance* self;
  };
  static void note(const mortise_host* host, std::string detail);
  static Instance& self_of(const mortise_host* host) { return *static_cast<const Host*>(host)->self; }

  const mortise_host* real_host_ = nullptr;
  Host host_{};
  std::mutex mutex_;  // guards the members below
  std::map<void*, std::uint64_t> memory_;
  std::map<std::string, const void*> extensions_;
  std::string pending_;
};

// Thrown inside a checked call; never leaves it.
struct Breach {
  bool is_callers;   // otherwise the called part broke the rule
  std::string text;  // "mortise/abi.h, "words of the header": what happened"
};

// A checked call as the thread sees it: the calls under way are a list, innermost first. Used by its thread. Invariant:
// calls of a thread nest.
class Call {
 public:
  Call(Instance& instance, const Function& function);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Returns the innermost checked call of this thread; null: none.
  static Call* innermost();
  // Returns the checked call that makes a call now; null: the host makes it.
  static const Call* caller_on_this_thread();

  Instance& instance() const { return instance_; }
  const Function& function() const { return function_; }
  // Returns the checked call that made this one; null: the host made it, perhaps inside a checked call of another part.
  const Call* caller() const { return caller_; }
  // Returns whether a part that runs a step made this call.
  bool is_within_step() const { return caller_ != nullptr && caller_->function_.tag == Tag::kStep; }

  // Throws a Breach that blames the caller, unless `holds`. `rule`: the words of `header`.
  template <typename... Args>
  void caller_must(bool holds, const char* header, const char* rule, fmt::format_string<Args...> detail,
                   Args&&... args) const {
    if (!holds) throw_breach(/*is_callers=*/true, header, rule, fmt::format(detail, std::forward<Args>(args)...));
  }
  // Throws a Breach that blames the called part, unless `holds`.
  template <typename... Args>
  void part_must(bool holds, const char* header, const char* rule, fmt::format_string<Args...> detail,
                 Args&&... args) const {
    if (!holds) throw_breach(/*is_callers=*/false, header, rule, fmt::format(detail, std::forward<Args>(args)...));
  }
  // Throws a Breach that blames the caller, unless the struct is given with at least its size in the oldest version.
  template <typename T>
  void check_struct(const T* given, std::size_t least, const char* what) const {
    check_struct_size(given == nullptr ? nullptr : &given->struct_size, least, what);
  }
  void check_array(const void* array, std::int64_t count, const char* header, const char* what) const;

  // Checks the function's tag and the instance's state, and that no other call is under way. Throws a Breach.
  void begin();
  // Makes the call `body(mortise_error*)` and checks the answer by the rules of mortise/abi.h. Throws a Breach.
  template <typename Body>
  mortise_status make(mortise_error* error, Body&& body) const {
    mortise_error own{};
    own.struct_size = sizeof own;
    mortise_status status = MORTISE_OK;
    contain([&] { status = body(&own); });
    check_answer(status, own);
    if (status != MORTISE_OK) give(error, own);
    return status;
  }
  // The same for a function without a status.
  template <typename Body>
  void make(Body&& body) const {
    contain(body);
    check_own_breach();
  }

  // Checks that the part keeps state for no sequence (mortise/ext/sequences.h), if it tells. REQUIRES: no sequence is
  // live.
  void check_no_sequences(void* handle) const;

  // Ends the call after a breach: writes `error` and makes sure that the part at fault ends. Returns INTERNAL.
  mortise_status report(const Breach& breach, mortise_error* error) const;
  // The same for a function without a status: logs the breach. If the part is to blame, its next call fails.
  void report_value(const Breach& breach) const;

 private:
  friend class Instance;
  [[noreturn]] static void throw_breach(bool is_callers, const char* header, const char* rule,
                                        const std::string& detail);
  void check_struct_size(const std::uint32_t* size, std::size_t least, const char* what) const;
  template <typename Body>
  void contain(Body&& body) const {
    std::string text;
    try {
      body();
      return;
    } catch (const std::exception& exception) {
      text = exception.what();
    } catch (...) {
    }
    throw_exception(text);
  }
  [[noreturn]] void throw_exception(const std::string& text) const;
  void check_answer(mortise_status status, const mortise_error& error) const;
  void check_own_breach() const;
  std::string told(const Breach& breach) const;
  static void give(mortise_error* to, const mortise_error& from);

  Instance& instance_;
  const Function& function_;
  Call* const outer_;  // the checked call around this one
  // How many calls the host had made on this thread when this call began. The host notes each of its calls, and a part
  // notes none. So this number equals that of the call around this one exactly if a part made this call.
  const std::size_t num_host_calls_;
  const Call* const caller_;
  bool is_busy_ = false;
  mutable std::string breach_;  // of this part, as a caller in this call
};

// Reports a breach: the handle of the call is no live instance.
mortise_status report_unknown_handle(const Function& function, mortise_error* error);

// Makes one checked call of a function with a status: `body(Call&, Kind&)` checks the caller, makes the call with
// Call::make and checks the part. `Kind` is the type of the instance.
template <typename Kind = Instance, typename Body>
mortise_status checked(const void* handle, const Function& function, mortise_error* error, Body&& body) {
  const std::shared_ptr<Instance> instance = Instance::find(handle);
  if (instance == nullptr) return report_unknown_handle(function, error);
  Call call(*instance, function);
  try {
    call.begin();
    return body(call, static_cast<Kind&>(*instance));
  } catch (const Breach& breach) {
    return call.report(breach, error);
  }
}

// The same for a function that returns a value, or nothing.
template <typename Kind = Instance, typename Result, typename Body>
Result checked_value(const void* handle, const Function& function, Result otherwise, Body&& body) {
  const std::shared_ptr<Instance> instance = Instance::find(handle);
  if (instance == nullptr) {
    report_unknown_handle(function, nullptr);
    return otherwise;
  }
  Call call(*instance, function);
  try {
    call.begin();
    return body(call, static_cast<Kind&>(*instance));
  } catch (const Breach& breach) {
    call.report_value(breach);
  }
  return otherwise;
}

}  // namespace mortise::abi_check
