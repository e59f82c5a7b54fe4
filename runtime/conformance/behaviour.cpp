#include "conformance/behaviour.hpp"

#include <sstream>

#include "conformance/proposer_driver.hpp"
#include "conformance/scheduler_driver.hpp"

namespace mortise::conformance {
namespace {

std::string scheduling(Part& part, std::uint64_t seed) {
  std::string journal;
  SimulatedEngine engine(
      guarded_calls(part, &journal),
      {.num_blocks = 96, .max_lookahead = 3, .num_priorities = 2, .num_prefixes = 3, .num_groups = 2}, seed);
  for (int i = 0; i < 12; ++i) engine.submit_random();
  while (!engine.idle()) engine.step();
  engine.tell_events();
  return journal;
}

}  // namespace

std::string behaviour(Part& part, std::uint64_t seed) {
  switch (part.component().kind) {
    case PartKind::kScheduler:
      return scheduling(part, seed);
    case PartKind::kProposer:
      return drafts_of_texts(part, seed);
    default:
      throw NotApplicable("there is no scenario for this kind");
  }
}

void expect_same(const std::string& before, const std::string& now, const char* what) {
  if (before == now) return;
  std::istringstream a(before), b(now);
  std::string left, right;
  for (int line = 1;; ++line) {
    const bool has_left = static_cast<bool>(std::getline(a, left)),
               has_right = static_cast<bool>(std::getline(b, right));
    if (has_left && has_right && left == right) continue;
    throw CaseFailed(fmt::format("{}: call {} gives '{}' and then '{}'", what, line, has_left ? left : "nothing",
                                 has_right ? right : "nothing"));
  }
}

}  // namespace mortise::conformance
