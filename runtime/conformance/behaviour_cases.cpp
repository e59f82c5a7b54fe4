// runtime/conformance/behaviour_cases.cpp: rules that hold for a whole scenario of steps: the same inputs give the same
// results, whichever thread calls, and whatever else runs.
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "conformance/behaviour.hpp"
#include "conformance/subject.hpp"

namespace mortise::conformance {
namespace {

void two_runs_agree(Subject& subject) {
  const std::uint64_t seed = subject.random()();
  const auto first = subject.make_active(), second = subject.make_active();
  const std::string once = behaviour(subject, *first, seed);
  expect_same(once, behaviour(subject, *second, seed), "two instances with the same inputs differ");
}

void instances_are_independent(Subject& subject) {
  const auto alone = subject.make_active();
  const std::string expected = behaviour(subject, *alone, 5);
  const auto one = subject.make_active(), other = subject.make_active();
  behaviour(subject, *other, 6);
  expect_same(expected, behaviour(subject, *one, 5),
              "an instance gives different results after another instance has worked");
}

void works_after_reactivation(Subject& subject) {
  const auto part = subject.make_active();
  behaviour(subject, *part, 7);
  part->deactivate();
  const Answer answer = part->activate(usual_sizes());
  expect(answer.ok(), "activate after deactivate fails: {}", answer.text());
  behaviour(subject, *part, 8);
}

// Runs each task on a thread of its own, one at a time.
void runs_on_any_thread(Subject& subject) {
  const std::string expected = behaviour(subject, *subject.make_active(), 9);
  std::unique_ptr<Part> part;
  std::exception_ptr failure;
  std::string text;
  const auto on_new_thread = [&](const std::function<void()>& work) {
    std::thread([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
    if (failure) std::rethrow_exception(failure);
  };
  on_new_thread([&] { part = subject.make(); });
  on_new_thread([&] { subject.start(*part); });
  on_new_thread([&] { text = behaviour(subject, *part, 9); });
  on_new_thread([&] { part->destroy(); });
  expect_same(expected, text, "the results depend on the thread that calls");
}

void a_second_copy_shares_nothing(Subject& subject) {
  const auto part = subject.make_active();
  const std::string expected = behaviour(subject, *part, 10);
  const mortise_entry_args args = entry_args();
  auto* const entry = subject.load_copy();
  for (const Component& component : check_module(entry(&args), subject.path())) {
    if (component.label() != subject.component().label()) continue;
    expect(component.abi != subject.component().abi, "a second copy of the file is the same as the first one");
    Part second(component, subject.setup());
    subject.start(second);
    expect_same(expected, behaviour(subject, second, 10), "a second copy of the file gives different results");
  }
  behaviour(subject, *part, 11);
}

void drawn_scenarios_hold(Subject& subject) {
  for (int i = 0; i < subject.rounds(5); ++i) behaviour(subject, *subject.make_active(), subject.random()());
}

constexpr std::uint32_t kOfStepping = kOfScheduler | kOfProposer | kOfAttention | kOfModel;

constexpr Case kBehaviourCases[] = {
    {"behaviour.repeats", "Two instances with the same inputs give the same results.", kOfStepping, two_runs_agree,
     true},
    {"behaviour.independent", "An instance gives the same results whatever other instances do.", kOfStepping,
     instances_are_independent},
    {"behaviour.reactivated", "An instance works after deactivate and activate.", kOfStepping,
     works_after_reactivation},
    {"behaviour.threads", "An instance may be called on any thread, one call at a time.", kOfStepping,
     runs_on_any_thread},
    {"behaviour.second_copy", "A second copy of the file shares nothing with the first one.", kOfStepping,
     a_second_copy_shares_nothing},
    {"behaviour.drawn", "Drawn scenarios break no rule.", kOfStepping, drawn_scenarios_hold, true},
};

}  // namespace

std::span<const Case> behaviour_cases() {
  return kBehaviourCases;
}

}  // namespace mortise::conformance
