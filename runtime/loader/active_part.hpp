// runtime/loader/active_part.hpp: an instance as the host calls it: instance, table and name, borrowed from the
// PartInstance that owns it. Every call into a plugin goes through the functions here, which keep the rules of a
// failure in one place: an exception that crosses the ABI counts as INTERNAL, and an instance that returned INTERNAL is
// never called again. They also note the call as running (running_calls.hpp), for whoever reports calls that take too
// long or end the process.
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

// A mortise_error that is ready to be passed to a plugin.
mortise_error empty_error();
// "INTERNAL" for MORTISE_INTERNAL, ...; "status 1001" for a number of the plugin's own.
std::string status_name(mortise_status status);

// A call into a part that failed. The text names the part, the function, what the part said and the status.
class PartError : public Error {
 public:
  PartError(const std::string& part, const char* function, mortise_status status, const mortise_error& error);

  const std::string& part() const { return part_; }
  const char* function() const { return function_; }
  mortise_status status() const { return status_; }

 private:
  std::string part_;
  const char* function_;  // static
  mortise_status status_;
};

// Whether an instance may still be called, and what calls into it are. Shared by the instance's owner and all that call
// it. Thread-safe.
class PartHealth {
 public:
  PartHealth() = default;
  // `full_name`: with the plugin's file, for reports of calls: "proposer 'ngram' (ngram.so)".
  explicit PartHealth(const std::string& full_name) : lasting_name_(lasting_text(full_name)) {}

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string reason() const;  // what the instance said when it failed; empty while it has not
  // The first reason stays; true for it.
  bool fail(const std::string& reason);

  // Calls are steps while the instance is active, else control calls.
  void set_active(bool active) { active_.store(active, std::memory_order_relaxed); }
  CallKind kind_of_calls() const {
    return active_.load(std::memory_order_relaxed) ? CallKind::kStep : CallKind::kControl;
  }
  // The full name, or `name` of an instance that was made without one.
  const char* lasting_name(const std::string& name);

 private:
  std::atomic<bool> failed_ = false;
  std::atomic<bool> active_ = false;
  std::atomic<const char*> lasting_name_ = nullptr;
  mutable std::mutex mutex_;  // guards reason_
  std::string reason_;
};

// Runs `call` and returns its status. An exception must not leave a plugin (the ABI is C), but some author will let it;
// it becomes INTERNAL with its text in `error`.
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

// How a call into a part ended.
struct CallResult {
  mortise_status status = MORTISE_OK;
  mortise_error error{};

  bool ok() const { return status == MORTISE_OK; }
};

// The failure of a call that is not made, since the instance has failed before: UNAVAILABLE with the reason.
CallResult refused_call(const PartHealth& health);
// Ends the use of an instance whose function, which has no status to return, threw; logs it.
void fail_part(const std::string& part, PartHealth& health, const char* function, const mortise_error& error);

// Calls `body(mortise_error*)`, which calls one function of a part and returns its status.
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

// Calls `body()`, which calls one function of a part that cannot fail. The result is `otherwise` when it throws all the
// same, or when the instance has failed before.
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
  // The same, for callers that go on without the part. After a failure that ended the instance's use every call is
  // UNAVAILABLE with the reason.
  template <auto Slot, typename... Args>
  CallResult try_call(const char* function, Args... args) const {
    return attempt(function, [&](mortise_error* error) { return (api->*Slot)(self, args..., error); });
  }
  // A function that returns no status: its value, or `otherwise` when it throws, which ends the instance's use.
  //   parts.device.value<&mortise_device_table::vocab_slice>("vocab_slice", 1024);
  template <auto Slot, typename Result, typename... Args>
  Result value(const char* function, Result otherwise, Args... args) const {
    return value_of(function, otherwise, [&] { return (api->*Slot)(self, args...); });
  }
  // A function that returns nothing.
  template <auto Slot, typename... Args>
  void tell(const char* function, Args... args) const {
    value_of(function, 0, [&] { return (api->*Slot)(self, args...), 0; });
  }

  // For functions of an extension's table, and those with other arguments: `body` makes the call. perform() throws.
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
