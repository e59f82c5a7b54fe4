// runtime/conformance/case.hpp: what a conformance case is, and how it fails.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "error.hpp"
#include "loader/component.hpp"

namespace mortise::conformance {

class Subject;

// Thrown by a case: the plugin breaks the case's rule. The text says how. A value.
class CaseFailed : public Error {
 public:
  using Error::Error;
};

// Thrown by a case: it does not apply to this plugin. The text says why. A value.
class NotApplicable : public Error {
 public:
  using Error::Error;
};

template <typename... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw CaseFailed(fmt::format(format, std::forward<Args>(args)...));
}

enum class Level : std::int32_t { kQuick, kFull, kFuzz };

// Kinds as a bit mask. A case of the file runs once, before any code of the plugin.
constexpr std::uint32_t kOfFile = 1;
constexpr std::uint32_t of_kind(PartKind kind) {
  return 1u << static_cast<std::uint32_t>(kind);
}
constexpr std::uint32_t kOfDevice = of_kind(PartKind::kDevice);
constexpr std::uint32_t kOfModel = of_kind(PartKind::kModel);
constexpr std::uint32_t kOfAttention = of_kind(PartKind::kAttention);
constexpr std::uint32_t kOfProposer = of_kind(PartKind::kProposer);
constexpr std::uint32_t kOfScheduler = of_kind(PartKind::kScheduler);
constexpr std::uint32_t kOfAll = kOfDevice | kOfModel | kOfAttention | kOfProposer | kOfScheduler;

struct Case {
  const char* name;      // "scheduler.valid_plans"; unique
  const char* sentence;  // the rule, in one sentence
  std::uint32_t kinds;   // kOf...
  // Throws CaseFailed, NotApplicable, or an Error of the loader, which counts as a failure. Runs in a process of its
  // own.
  void (*run)(Subject& subject);
  bool is_drawn = false;        // draws its inputs from Subject::random(), so that another seed tests other inputs
  Level level = Level::kQuick;  // the lowest level that runs it
};

// Returns all cases, in the order in which they run.
std::span<const Case> all_cases();

// Each returns the cases of one source file.
std::span<const Case> file_cases();
std::span<const Case> module_cases();
std::span<const Case> option_cases();
std::span<const Case> life_cases();
std::span<const Case> behaviour_cases();
std::span<const Case> scheduler_cases();
std::span<const Case> proposer_cases();
std::span<const Case> runner_cases();
std::span<const Case> attention_output_cases();
std::span<const Case> attention_cases();
std::span<const Case> model_cases();
std::span<const Case> model_load_cases();
std::span<const Case> device_cases();
std::span<const Case> device_linear_cases();
std::span<const Case> device_row_cases();
std::span<const Case> device_logit_cases();
std::span<const Case> device_state_cases();
std::span<const Case> device_rank_cases();

}  // namespace mortise::conformance
