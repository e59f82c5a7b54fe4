// runtime/abi_record/recorded_instance.hpp: what a recorder keeps of its file, its component and an instance.
#pragma once

#include <spdlog/spdlog.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "error.hpp"
#include "loader/component.hpp"
#include "loader/instance_states.hpp"
#include "mortise/attention.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace mortise::abi_record {

using nlohmann::json;

// The file of a record. Invariant: until writing fails, the file ends with a whole line between calls. Used by one
// thread at a time: the thread that runs steps, or the one that opens and closes parts.
class CallLog {
 public:
  explicit CallLog(std::string path) : path_(std::move(path)), file_(path_, std::ios::trunc) {
    if (!file_) fail("--record-abi {}: cannot be written; check the path and its permissions", path_);
  }
  void write(const json& line) {
    if (has_failed_) return;
    file_ << line.dump(-1, ' ', true, json::error_handler_t::replace) << '\n' << std::flush;
    if (file_) return;
    has_failed_ = true;
    spdlog::error("--record-abi {}: can no longer be written; the record ends here", path_);
  }
  // Returns true for the first instance that asks, which is the recorded one.
  bool take_first() { return !std::exchange(is_taken_, true); }
  void begin(const char* function, json in) {
    write({{"call", ++number_}, {"function", function}, {"in", std::move(in)}});
  }
  void end(mortise_status status, json out) {
    write({{"result", number_}, {"status", status}, {"out", std::move(out)}});
  }

 private:
  const std::string path_;
  std::ofstream file_;
  std::int64_t number_ = 0;
  bool has_failed_ = false;
  bool is_taken_ = false;
};

// A component that records the calls of its first instance, and forwards those of later ones.
struct RecordedComponent {
  RecordedComponent(const Component& component, CallLog& log);

  const Component& real;
  CallLog& log;
  Component component;
  mortise_component abi;
  mortise_scheduler_table scheduler{};
  mortise_proposer_table proposer{};
  mortise_attention_table attention{};
};

// An instance of a RecordedComponent. Used by one thread at a time, as the instance is.
struct RecordedInstance {
  struct Host : mortise_host {
    RecordedInstance* self;
  };

  explicit RecordedInstance(RecordedComponent& component) : part(component), is_recorded(component.log.take_first()) {}

  RecordedComponent& part;
  const bool is_recorded;  // false: another instance was recorded before
  void* handle = nullptr;
  const mortise_host* real_host = nullptr;
  Host host{};
  std::string unrecorded;      // an extension of the host that the part asked for
  json freed = json::array();  // this plan's calls of blocks_freed, with their results
  const mortise_schedule_view* view = nullptr;

  template <typename Table>
  const Table& table() const {
    return *part.real.table<Table>();
  }
  const mortise_component& abi() const { return *part.real.abi; }
};

// Returns the live instances, by handle.
InstanceStates<RecordedInstance>& instances();
inline std::shared_ptr<RecordedInstance> instance_of(const void* handle) {
  return instances().find(handle);
}

// Writes into `error` why a call is not made.
mortise_status refuse_call(mortise_error* error, const std::string& text);

// Makes one call. `in` and `out` return what the record gets. A part that needs an extension of the host cannot run
// from a record, so its call fails.
template <typename In, typename Body, typename Out>
mortise_status recorded(RecordedInstance& self, const char* function, mortise_error* error, In&& in, Body&& body,
                        Out&& out) {
  if (!self.is_recorded) return body();
  self.part.log.begin(function, in());
  const mortise_status status = body();
  if (!self.unrecorded.empty()) {
    return refuse_call(error, fmt::format("it uses {}, whose results --record-abi cannot record; record another part",
                                          self.unrecorded));
  }
  self.part.log.end(status, status == MORTISE_OK ? out() : json::object());
  return status;
}

inline json nothing() {
  return json::object();
}

// Returns the table of a recorded attention.
mortise_attention_table recorded_attention();

}  // namespace mortise::abi_record
