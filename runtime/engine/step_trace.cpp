#include "engine/step_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "engine/engine.hpp"

namespace mortise {
namespace {

// Formats nanoseconds as microseconds with three decimals. The result is exact, so a phase never seems to end after its
// step.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

// Returns "request 17", or "request 17/2" if the request has several choices.
std::string sequence_name(const Sequence& sequence) {
  if (sequence.request().sampling.n == 1) return fmt::format("request {}", sequence.owner->id);
  return fmt::format("request {}/{}", sequence.owner->id, sequence.choice);
}

}  // namespace

StepTrace::StepTrace(TraceFile* file, const std::string& engine_name) : engine_name_(engine_name) {
  write_to(file, EngineStats());
}

void StepTrace::write_to(TraceFile* file, const EngineStats& stats) {
  if (file_ != nullptr) write_events();
  events_.clear();
  file_ = file;
  generated_before_ = stats.num_generated;
  if (file_ != nullptr) pid_ = file_->add_process(engine_name_, "engine");
}

std::int64_t StepTrace::now_ns() const {
  if (file_ != nullptr) return file_->now_ns();
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void StepTrace::begin_step(StepPhase first_phase) {
  step_begin_ns_ = phase_begin_ns_ = now_ns();
  phase_ = first_phase;
  step_ns_ = {};
}

void StepTrace::begin_phase(StepPhase phase) {
  const std::int64_t now = now_ns();
  end_phase(now);
  phase_ = phase;
  phase_begin_ns_ = now;
}

void StepTrace::end_phase(std::int64_t now) {
  if (!phase_) return;
  step_ns_[static_cast<std::size_t>(*phase_)] += now - phase_begin_ns_;
  if (file_ != nullptr) {
    events_.push_back(
        {phase_begin_ns_, now, fmt::format(R"("ph":"X","cat":"phase","name":"{}")", to_string(*phase_)), true});
  }
  phase_.reset();
}

void StepTrace::end_timed(const EngineStats& stats) {
  const std::int64_t now = now_ns();
  end_phase(now);
  if (batch_.num_sequences > 0) {
    ++times_.num_steps;
    for (std::size_t i = 0; i < kNumStepPhases; ++i) times_.ns[i] += step_ns_[i];
  }
  if (file_ != nullptr) end_step(now, stats);
}

void StepTrace::end_step(std::int64_t now, const EngineStats& stats) {
  if (batch_.num_sequences > 0) {
    const std::string arguments = fmt::format(
        R"("step":{},"rows":{},"sequences":{},"prompt_tokens":{},"decode_tokens":{},"draft_tokens":{},"generated_tokens":{})",
        stats.num_steps, batch_.num_rows(), batch_.num_sequences, batch_.prompt_rows, batch_.decode_rows,
        batch_.draft_rows, stats.num_generated - generated_before_);
    events_.push_back(
        {step_begin_ns_, now, fmt::format(R"("ph":"X","cat":"step","name":"step","args":{{{}}})", arguments), true});
  } else {
    std::erase_if(events_, [](const Event& event) { return event.has_duration; });
  }
  generated_before_ = stats.num_generated;
  add_counters(now, stats);
  write_events();
}

void StepTrace::add_counters(std::int64_t now, const EngineStats& stats) {
  const std::int32_t held = stats.num_blocks - stats.num_free_blocks - stats.num_cached_free_blocks;
  events_.push_back({now, now,
                     fmt::format(R"("ph":"C","name":"KV blocks","args":{{"held":{},"cached":{},"free":{}}})", held,
                                 stats.num_cached_free_blocks, stats.num_free_blocks),
                     false});
  events_.push_back({now, now,
                     fmt::format(R"("ph":"C","name":"sequences","args":{{"running":{},"waiting":{}}})",
                                 stats.num_running, stats.num_waiting),
                     false});
}

void StepTrace::begin_sequence(const Sequence& sequence) {
  const Request& request = sequence.request();
  add_sequence_event('b', sequence, sequence_name(sequence),
                     fmt::format(R"("prompt_tokens":{},"max_tokens":{},"priority":{})", sequence.num_prompt,
                                 request.sampling.max_tokens, request.priority));
}

void StepTrace::mark_sequence(const Sequence& sequence, const char* what) {
  add_sequence_event('n', sequence, what, "");
}

void StepTrace::end_sequence(const Sequence& sequence) {
  add_sequence_event(
      'e', sequence, sequence_name(sequence),
      fmt::format(R"("finish_reason":"{}","completion_tokens":{},"cached_tokens":{})", to_string(sequence.finish),
                  sequence.usage.completion_tokens, sequence.usage.cached_tokens));
}

void StepTrace::add_sequence_event(char phase, const Sequence& sequence, const std::string& name,
                                   const std::string& arguments) {
  const std::int64_t now = now_ns();
  // All processes of a trace share the ids of asynchronous events, so the id contains the process.
  events_.push_back({now, now,
                     fmt::format(R"("ph":"{}","cat":"request","id":"{}.{}","name":"{}","args":{{{}}})", phase, pid_,
                                 sequence.id, name, arguments),
                     false});
}

void StepTrace::write_events() {
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::string text;
  for (const Event& event : events_) {
    if (!text.empty()) text += ",\n";
    fmt::format_to(std::back_inserter(text), R"({{"ts":{},"pid":{},"tid":1,)", microseconds(event.begin_ns), pid_);
    if (event.has_duration) {
      fmt::format_to(std::back_inserter(text), R"("dur":{},)", microseconds(event.end_ns - event.begin_ns));
    }
    text += event.text;
    text += '}';
  }
  file_->add(text);
  events_.clear();
}

}  // namespace mortise
