// runtime/loader/active_part.hpp: calls into a plugin's instance. Every call goes through the functions here, which
// keep the rules of failure in one place: an exception that crosses the ABI counts as INTERNAL, and an instance that
// returned INTERNAL is never called again. They also record the running call (running_calls.hpp), so that calls which
// take too long or end the process can be reported.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "error.hpp"
#include "loader/running_calls.hpp"
#include "mortise/abi.h"

namespace mortise {

// Returns an empty mortise_error for a call of a plugin.
mortise_error empty_error();
// Returns "INTERNAL" for MORTISE_INTERNAL, ...; "status 1001" for a status that the plugin defines.
std::string status_name(mortise_status status);

// A failed call into a part. The text names the part, the function, the part's message and the status. A value: each
// thread has its own.
class PartError : public Error {
 public:
  PartError(const std::string& part, const char* function, mortise_status status, const mortise_error& error);

  const std::string& part() const { return part_; }
  const char* function() const { return function_; }
  mortise_status status() const { return status_; }

 private:
  std::string part_;
  const char* function_;  // a static text
  mortise_status status_;
};

// Whether an instance may still be called, and whether calls into it are steps. Shared by the owner and all callers of
// the instance. Thread-safe. Invariant: once failed, it stays failed, with the first reason.
class PartHealth {
 public:
  PartHealth() = default;
  // `full_name` includes the plugin's file, for reports of calls: "proposer 'ngram' (ngram.so)".
  explicit PartHealth(const std::string& full_name) : lasting_name_(lasting_text(full_name)) {}

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string reason() const;  // the instance's message when it failed; empty if it has not
  // Marks the instance as failed. Only the first reason is kept; returns true for it.
  bool fail(const std::string& reason);

  // Calls count as steps while the instance is active, otherwise as control calls.
  void set_active(bool active) { active_.store(active, std::memory_order_relaxed); }
  CallKind kind_of_calls() const {
    return active_.load(std::memory_order_relaxed) ? CallKind::kStep : CallKind::kControl;
  }
  // Returns the full name; `name` for an instance that was made without one.
  const char* lasting_name(const std::string& name);

 private:
  std::atomic<bool> failed_ = false;
  std::atomic<bool> active_ = false;
  std::atomic<const char*> lasting_name_ = nullptr;
  mutable std::mutex mutex_;  // guards reason_
  std::string reason_;
};

// Runs `call` and returns its status. An exception must not leave a plugin, since the ABI is C; if one does, the status
// is INTERNAL and `error` has its text.
template <typename Call>
mortise_status contain_exceptions(mortise_error& error, Call&& call) noexcept {
  const auto say = [&](const char* what) {
    const auto end = fmt::format_to_n(error.message, sizeof error.message - 1, "an exception crossed the C ABI{}{}",
                                      *what == '\0' ? "" : ": ", what);
    *end.out = '\0';
  };
  try {
    return call();
  } catch (const std::exception& exception) {
    say(exception.what());
  } catch (...) {
    say("");
  }
  return MORTISE_INTERNAL;
}

// The result of a call into a part. A value.
struct CallResult {
  mortise_status status = MORTISE_OK;
  mortise_error error{};

  bool ok() const { return status == MORTISE_OK; }
};

// The result of a call that is not made, because the instance has failed before: UNAVAILABLE with the reason.
CallResult refused_call(const PartHealth& health);
// Marks an instance as failed after an exception in a function that returns no status, and logs it.
void fail_part(const std::string& part, PartHealth& health, const char* function, const mortise_error& error);

// Calls `body(mortise_error*)`, which calls one function of a part and returns its status. Throws nothing.
template <typename Body>
CallResult attempt_call(const std::string& part, PartHealth& health, const char* function, Body&& body) {
  if (health.failed()) return refused_call(health);
  CallResult result;
  result.error = empty_error();
  const RunningCall running(health.lasting_name(part), function, health.kind_of_calls());
  result.status = contain_exceptions(result.error, [&] { return body(&result.error); });
  if (result.status == MORTISE_INTERNAL) health.fail(PartError(part, function, result.status, result.error).what());
  return result;
}

// Calls `body()`, which calls one function of a part that cannot fail. Returns `otherwise` if it throws all the same,
// or if the instance has failed before.
template <typename Result, typename Body>
Result value_of_call(const std::string& part, PartHealth& health, const char* function, Result otherwise, Body&& body) {
  if (health.failed()) return otherwise;
  mortise_error error = empty_error();
  Result result = otherwise;
  const RunningCall running(health.lasting_name(part), function, health.kind_of_calls());
  const mortise_status status = contain_exceptions(error, [&] {
    result = body();
    return MORTISE_OK;
  });
  if (status == MORTISE_OK) return result;
  fail_part(part, health, function, error);
  return otherwise;
}

// An active instance with its function table: every call of the host into a part goes through it. A value: copies share
// the instance and its health. The ABI says on which thread each function may be called.
template <typename Instance, typename Table>
struct ActivePart {
  Instance* self = nullptr;
  const Table* api = nullptr;
  std::string name;  // for messages: "scheduler 'fcfs'"
  std::shared_ptr<PartHealth> health = std::make_shared<PartHealth>();

  explicit operator bool() const { return self != nullptr; }

  // Calls (api->*Slot)(self, args..., &error):
  //   parts.attention.call<&mortise_attention_table::plan>("plan", &step);
  // Throws a PartError unless the status is OK.
  template <auto Slot, typename... Args>
  void call(const char* function, Args... args) const {
    throw_unless_ok(function, try_call<Slot>(function, args...));
  }
  // The same for callers that can do without the part: returns the failure. After a failure that ended the instance's
  // use, every call returns UNAVAILABLE with the reason.
  template <auto Slot, typename... Args>
  CallResult try_call(const char* function, Args... args) const {
    return attempt(function, [&](mortise_error* error) { return (api->*Slot)(self, args..., error); });
  }
  // Calls a function that returns no status. Returns its value, or `otherwise` if it throws, which ends the instance's
  // use:
  //   parts.device.value<&mortise_device_table::vocab_slice>("vocab_slice", 1024);
  template <auto Slot, typename Result, typename... Args>
  Result value(const char* function, Result otherwise, Args... args) const {
    return value_of(function, otherwise, [&] { return (api->*Slot)(self, args...); });
  }
  // Calls a function that returns nothing.
  template <auto Slot, typename... Args>
  void tell(const char* function, Args... args) const {
    value_of(function, 0, [&] { return (api->*Slot)(self, args...), 0; });
  }

  // For functions of extensions, and functions with other arguments. `body` makes the call. perform() throws a
  // PartError if the call fails; attempt() returns the failure; value_of() returns `otherwise` if the call throws.
  template <typename Body>
  void perform(const char* function, Body&& body) const {
    throw_unless_ok(function, attempt(function, std::forward<Body>(body)));
  }
  template <typename Body>  // body(mortise_error*) -> mortise_status
  CallResult attempt(const char* function, Body&& body) const {
    return attempt_call(name, *health, function, std::forward<Body>(body));
  }
  template <typename Result, typename Body>  // body() -> Result
  Result value_of(const char* function, Result otherwise, Body&& body) const {
    return value_of_call(name, *health, function, otherwise, std::forward<Body>(body));
  }

 private:
  void throw_unless_ok(const char* function, const CallResult& result) const {
    if (!result.ok()) throw PartError(name, function, result.status, result.error);
  }
};

}  // namespace mortise
