// runtime/engine/phase_times.hpp: the phases of a step and the time that each takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mortise {

// In the order in which they run on a device that computes at once. On a device that computes behind the host, kText
// and kStream belong to the previous step and run between kSample and kWait.
enum class StepPhase { kInbox, kPlan, kPropose, kBuild, kForward, kSample, kWait, kCommit, kText, kStream };
inline constexpr std::size_t kNumStepPhases = 10;

inline const char* to_string(StepPhase phase) {
  constexpr std::array<const char*, kNumStepPhases> kNames = {"inbox",  "plan", "propose", "build", "forward",
                                                              "sample", "wait", "commit",  "text",  "stream"};
  return kNames[static_cast<std::size_t>(phase)];
}

// Sums over the timed steps. With a trace every step is timed, otherwise one of StepTrace::kTimedEvery.
struct PhaseTimes {
  std::uint64_t num_steps = 0;
  std::array<std::int64_t, kNumStepPhases> ns{};  // by StepPhase
};

}  // namespace mortise
