// runtime/conformance/part.hpp: one live instance of the component under test, with a host of its own. Calls are made
// on the raw table, so that a case can pass what no correct host passes, and every call is recorded for the report of a
// crash.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "conformance/case.hpp"
#include "conformance/checked_host.hpp"
#include "conformance/checked_runners.hpp"
#include "loader/active_part.hpp"
#include "loader/option_reader.hpp"
#include "mortise/device.h"

namespace mortise::conformance {

// How an instance is created.
struct PartSetup {
  nlohmann::json options;  // complete
  // The size of mortise_create_args that the host knows. If it is larger than this program's own struct, as in a newer
  // host, the rest is filled with 0xa5. If it is smaller, the struct ends at a guard page.
  std::uint32_t create_size = sizeof(mortise_create_args);
  bool gives_error = true;  // false: error is NULL
  std::int64_t refuse_memory_from = INT64_MAX;
  CheckedHost::Extensions extensions = {};
  bool offers_runners = true;  // whether a proposer finds mortise/ext/runner.h at the host
  mortise_device* device = nullptr;
  const mortise_device_table* device_table = nullptr;
  std::string model_config = {};
  std::int32_t rank = 0, world = 1;
};

// The result of one call. A value.
struct Answer {
  mortise_status status = MORTISE_OK;
  mortise_error error{};

  bool ok() const { return status == MORTISE_OK; }
  std::string text() const;  // "message (STATUS)"
};

// Seconds of each call, by function.
using CallSeconds = std::map<std::string, std::vector<double>>;

// Owns the instance; the destructor deactivates and destroys it. Invariant: there is an instance exactly while
// created() is OK and destroy() was not called. Used by one thread at a time.
class Part {
 public:
  // Creates the instance; see created(). Throws CaseFailed if the plugin breaks a rule.
  Part(const Component& component, PartSetup setup);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // Returns the answer of create. If it is not OK there is no instance.
  const Answer& created() const { return created_; }
  Answer activate(const mortise_activate_args& args);
  void deactivate();
  // Deactivates and destroys the instance now.
  void destroy();

  // Calls `body(mortise_error*)`, which calls one function of the instance. Throws CaseFailed if an exception leaves
  // the function, if it returns a failure without a message, or if it changes what it may not.
  template <typename Body>
  Answer call(const char* function, Body&& body) const {
    Answer answer;
    answer.error = empty_error();
    const RunningCall running(name_, function, is_active_ ? CallKind::kStep : CallKind::kControl);
    runners_.begin_call(function);
    bool has_thrown = false;
    const auto begin = std::chrono::steady_clock::now();
    answer.status = contain_exceptions(answer.error, [&] {
      has_thrown = true;
      const mortise_status status = body(setup_.gives_error ? &answer.error : nullptr);
      has_thrown = false;
      return status;
    });
    if (call_seconds_ != nullptr) {
      (*call_seconds_)[function].push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    runners_.end_call();
    check_answer(function, answer, has_thrown);
    return answer;
  }
  // Does the same for a call that must succeed.
  template <typename Body>
  void perform(const char* function, Body&& body) const {
    const Answer answer = call(function, body);
    expect(answer.ok(), "{} fails: {}", function, answer.text());
  }
  template <typename Handle>  // mortise_scheduler for a scheduler, ...
  Handle* handle() const {
    return static_cast<Handle*>(instance_);
  }
  template <typename Table>
  const Table& table() const {
    return *component_.table<Table>();
  }
  const void* get_ext(const char* id) const;

  const Component& component() const { return component_; }
  // From now on adds the time of each call to `seconds`, by function. NULL ends that.
  void time_calls(CallSeconds* seconds) { call_seconds_ = seconds; }
  // Returns the runners that the part has opened. A breach of their rules fails the call in which it happens.
  CheckedRunners& runners() { return runners_; }
  CheckedHost& host() { return host_; }
  const CheckedHost& host() const { return host_; }
  bool is_active() const { return is_active_; }

 private:
  void check_answer(const char* function, const Answer& answer, bool has_thrown) const;
  const void* host_extension(const char* id) const;

  const Component& component_;
  const PartSetup setup_;
  const char* name_;
  mutable CheckedRunners runners_;  // notes what happens in calls of a const part, too
  CheckedHost host_;
  void* instance_ = nullptr;
  bool is_active_ = false;
  CallSeconds* call_seconds_ = nullptr;
  Answer created_;
};

}  // namespace mortise::conformance
