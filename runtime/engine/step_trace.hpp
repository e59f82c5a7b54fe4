// runtime/engine/step_trace.hpp: an engine's steps as events of a trace. Used by the engine's thread alone. Without a
// file every call is one comparison.
//
// An engine is a process of the trace with one thread. On it lie `step` events with their phases inside; counters tell
// of KV blocks and sequences; each sequence is an asynchronous event from its arrival to its end. The events of a step
// are written when it is over, in order of time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/step_rows.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

struct EngineStats;

class StepTrace {
 public:
  // `file` null: nothing is traced.
  StepTrace(TraceFile* file, const std::string& engine_name);

  bool is_on() const { return file_ != nullptr; }

  // A step: begin(), phase() at the beginning of each further phase, batch() when it is known, end(). A step without a
  // batch, one that only took in what ended at once, leaves no event.
  void begin(const char* first_phase) {
    if (file_ != nullptr) begin_step(first_phase);
  }
  void phase(const char* name) {
    if (file_ != nullptr) begin_phase(name);
  }
  void batch(std::span<const ScheduledSequence> scheduled) {
    if (file_ != nullptr) count_rows(scheduled);
  }
  void end(const EngineStats& stats) {
    if (file_ != nullptr) end_step(stats);
  }

  void arrived(const Sequence& sequence) {
    if (file_ != nullptr) begin_sequence(sequence);
  }
  // Something that happens to a sequence once in a while: "first token", "preempted".
  void mark(const Sequence& sequence, const char* what) {
    if (file_ != nullptr) mark_sequence(sequence, what);
  }
  void ended(const Sequence& sequence) {
    if (file_ != nullptr) end_sequence(sequence);
  }
  // The engine has nothing to do: what is known so far goes to the file.
  void idle() {
    if (file_ != nullptr) file_->flush();
  }

 private:
  struct Event {
    std::int64_t begin_ns, end_ns;  // equal, but for phases and steps
    std::string text;               // from "ph" on, without times
    bool has_duration;
  };
  void begin_step(const char* first_phase);
  void begin_phase(const char* name);
  void end_phase(std::int64_t now);
  void count_rows(std::span<const ScheduledSequence> scheduled);
  void end_step(const EngineStats& stats);
  void begin_sequence(const Sequence& sequence);
  void mark_sequence(const Sequence& sequence, const char* what);
  void end_sequence(const Sequence& sequence);
  void add_sequence_event(char phase, const Sequence& sequence, const std::string& name, const std::string& arguments);
  void add_counters(std::int64_t now, const EngineStats& stats);
  void write_events();

  TraceFile* const file_;
  int pid_ = 0;
  std::vector<Event> events_;  // of this step
  std::int64_t step_begin_ns_ = 0, phase_begin_ns_ = 0;
  const char* phase_ = nullptr;
  std::size_t num_sequences_ = 0;
  std::int32_t prompt_rows_ = 0, decode_rows_ = 0, draft_rows_ = 0;
  std::uint64_t generated_before_ = 0;
};

}  // namespace mortise
