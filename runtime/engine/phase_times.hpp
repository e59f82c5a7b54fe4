// runtime/engine/phase_times.hpp: where the time of steps goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mortise {

// In their order on a device that computes at once. On one that computes behind the host, kText and kStream are of the
// step before and come between kSample and kWait.
enum class StepPhase { kInbox, kPlan, kPropose, kBuild, kForward, kSample, kWait, kCommit, kText, kStream };
inline constexpr std::size_t kNumStepPhases = 10;

inline const char* to_string(StepPhase phase) {
  constexpr std::array<const char*, kNumStepPhases> kNames = {"inbox",  "plan", "propose", "build", "forward",
                                                              "sample", "wait", "commit",  "text",  "stream"};
  return kNames[static_cast<std::size_t>(phase)];
}

// Of the steps that were timed: all with a trace, else one of StepTrace::kTimedEvery.
struct PhaseTimes {
  std::uint64_t num_steps = 0;
  std::array<std::int64_t, kNumStepPhases> ns{};  // by StepPhase
};

}  // namespace mortise
