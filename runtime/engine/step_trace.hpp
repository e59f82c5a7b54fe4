// runtime/engine/step_trace.hpp: writes an engine's steps as events of a trace, and measures the time of their phases.
// Engine's thread only. Without a file one of kTimedEvery steps is timed; in the others each call costs one comparison.
//
// An engine is a process of the trace with one thread. The thread has `step` events that contain their phases. Counters
// show KV blocks and sequences. Each sequence is an asynchronous event from its arrival to its end. The events of a
// step are written at its end, in order of time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/phase_times.hpp"
#include "engine/step_rows.hpp"
#include "trace/trace_file.hpp"

namespace mortise {

struct EngineStats;

// Invariant: a phase is open only between begin() and end(). Engine's thread only.
class StepTrace {
 public:
  // `file` null: nothing is traced.
  StepTrace(TraceFile* file, const std::string& engine_name);

  bool is_on() const { return file_ != nullptr; }
  // Continues in another file, or in none. REQUIRES: no step has begun, and `stats` are those of the last step.
  void write_to(TraceFile* file, const EngineStats& stats);

  // A step calls begin(), phase() at the beginning of each further phase, batch() when the batch is known, and end(). A
  // step without a batch writes no step or phase event and counts no time. Such a step only took in requests that ended
  // at once.
  void begin(StepPhase first) {
    batch_ = {};
    timed_ = file_ != nullptr || steps_to_timed_ == 0;
    if (timed_) begin_step(first);
  }
  void phase(StepPhase next) {
    if (timed_) begin_phase(next);
  }
  void batch(const BatchComposition& batch) { batch_ = batch; }
  void end(const EngineStats& stats) {
    if (timed_) end_timed(stats);
    if (batch_.num_sequences > 0) steps_to_timed_ = (steps_to_timed_ == 0 ? kTimedEvery : steps_to_timed_) - 1;
  }
  const PhaseTimes& times() const { return times_; }

  // A timed step reads the clock about ten times, so this is less than once per step on average. It is a prime number,
  // so that all steps of a repeating pattern (long, short, long, short) get timed.
  static constexpr int kTimedEvery = 13;

  void arrived(const Sequence& sequence) {
    if (file_ != nullptr) begin_sequence(sequence);
  }
  // Marks a rare event of a sequence: "first token", "preempted".
  void mark(const Sequence& sequence, const char* what) {
    if (file_ != nullptr) mark_sequence(sequence, what);
  }
  void ended(const Sequence& sequence) {
    if (file_ != nullptr) end_sequence(sequence);
  }
  // Called when the engine has nothing to do: flushes the file.
  void idle() {
    if (file_ != nullptr) file_->flush();
  }

 private:
  struct Event {
    std::int64_t begin_ns, end_ns;  // equal, except for phases and steps
    std::string text;               // from "ph" on, without times
    bool has_duration;
  };
  std::int64_t now_ns() const;
  void begin_step(StepPhase first_phase);
  void begin_phase(StepPhase phase);
  void end_phase(std::int64_t now);
  void end_timed(const EngineStats& stats);
  void end_step(std::int64_t now, const EngineStats& stats);
  void begin_sequence(const Sequence& sequence);
  void mark_sequence(const Sequence& sequence, const char* what);
  void end_sequence(const Sequence& sequence);
  void add_sequence_event(char phase, const Sequence& sequence, const std::string& name, const std::string& arguments);
  void add_counters(std::int64_t now, const EngineStats& stats);
  void write_events();

  const std::string engine_name_;
  TraceFile* file_ = nullptr;
  int pid_ = 0;
  std::vector<Event> events_;  // of this step
  std::int64_t step_begin_ns_ = 0, phase_begin_ns_ = 0;
  std::optional<StepPhase> phase_;
  std::array<std::int64_t, kNumStepPhases> step_ns_{};  // of this step
  bool timed_ = false;                                  // this step is timed
  int steps_to_timed_ = 0;
  PhaseTimes times_;
  BatchComposition batch_;
  std::uint64_t generated_before_ = 0;
};

}  // namespace mortise
