// runtime/loader/active_part.hpp: an active instance as the host calls it in steps: instance, table and name, borrowed
// from the PartInstance that owns it. Every step call goes through call() or try_call(), which keep the rules of a
// failure in one place: an exception that crosses the ABI counts as INTERNAL, and an instance that returned INTERNAL is
// never called again.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "error.hpp"
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

  mortise_status status() const { return status_; }

 private:
  mortise_status status_;
};

// Whether an instance may still be called. Shared by the instance's owner and all that call it. Thread-safe.
class PartHealth {
 public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  std::string reason() const;            // what the instance said when it failed; empty while it has not
  void fail(const std::string& reason);  // The first reason stays.

 private:
  std::atomic<bool> failed_ = false;
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
    const CallResult result = try_call<Slot>(function, args...);
    if (!result.ok()) throw PartError(name, function, result.status, result.error);
  }

  // The same, for callers that go on without the part. After a failure that ended the instance's use every call is
  // UNAVAILABLE with the reason.
  template <auto Slot, typename... Args>
  CallResult try_call(const char* function, Args... args) const {
    CallResult result;
    result.error = empty_error();
    if (health->failed()) return refused();
    result.status = contain_exceptions(result.error, [&] { return (api->*Slot)(self, args..., &result.error); });
    if (result.status == MORTISE_INTERNAL) {
      health->fail(PartError(name, function, result.status, result.error).what());
    }
    return result;
  }

 private:
  CallResult refused() const {
    CallResult result;
    result.status = MORTISE_UNAVAILABLE;
    result.error = empty_error();
    const std::string text = "is not called again after a failure: " + health->reason();
    text.copy(result.error.message, sizeof result.error.message - 1);
    return result;
  }
};

}  // namespace mortise
