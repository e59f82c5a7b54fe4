// runtime/conformance/runner_cases.cpp: rules of proposers that run a draft model (mortise/ext/runner.h). The other
// cases of proposers use the runner, too: a breach of its header's rules fails each of them.
#include <algorithm>

#include "conformance/behaviour.hpp"
#include "conformance/proposer_driver.hpp"
#include "conformance/subject.hpp"

namespace mortise::conformance {
namespace {

constexpr std::int32_t kBranches = 3;

// Returns the subject's setup, with draft trees if the proposer has them.
PartSetup tree_setup(Subject& subject) {
  PartSetup setup = subject.setup();
  const bool can = (subject.component().capabilities & MORTISE_CAP_TREE) != 0 && setup.options.contains("branches");
  if (can) setup.options["branches"] = kBranches;
  return setup;
}

std::int32_t branches_of(const PartSetup& setup) {
  return setup.options.value("branches", 1);
}

// Returns an active part. Throws NotApplicable if it has opened no runner.
std::unique_ptr<Part> drafting_part(Subject& subject, const PartSetup& setup) {
  auto part = subject.make_active(setup);
  if (part->runners().num_opened() == 0) throw NotApplicable("it opens no runner (mortise/ext/runner.h)");
  return part;
}

Wanted wanted_for(const ProposerDriver& driver, std::uint64_t id, const Tokens& text) {
  return {id, std::min(6, driver.max_drafts()), static_cast<std::int64_t>(text.size())};
}

void closes_its_runners(Subject& subject) {
  const auto part = drafting_part(subject, subject.setup());
  behaviour(subject, *part, 1);
  part->deactivate();
  const Answer answer = part->activate(usual_sizes());
  expect(answer.ok(), "activate after deactivate fails: {}", answer.text());
  behaviour(subject, *part, 2);
  part->destroy();
  expect(part->runners().num_open() == 0, "{} runners are open after destroy, and keep their weights in memory",
         part->runners().num_open());
}

void ends_what_has_ended(Subject& subject) {
  const PartSetup setup = tree_setup(subject);
  const auto part = drafting_part(subject, setup);
  ProposerDriver driver(*part);
  for (std::uint64_t id = 1; id < 40; id += 2) {
    const Tokens text = repetitive_text(id, 60), other = repetitive_text(id + 1, 40);
    driver.observe({{id, 0, text}, {id + 1, 0, other}});
    driver.propose({wanted_for(driver, id, text), wanted_for(driver, id + 1, other)}, {.branches = branches_of(setup)});
    driver.end({id});
    driver.propose({wanted_for(driver, id + 1, other)}, {.branches = branches_of(setup)});
    driver.end({id + 1});
    const CheckedRunners& runners = part->runners();
    expect(runners.num_sequences() == 0,
           "all sequences have ended, but its runner keeps {}, {} of them forks: call the runner's `end`",
           runners.num_sequences(), runners.num_forks());
  }
}

// The driver checks each draft. One in ten tokens that the draft model would draw is not a token of the target.
void drafts_are_the_targets_tokens(Subject& subject) {
  const bool tells = (subject.component().capabilities & MORTISE_CAP_DISTRIBUTION) != 0;
  const auto part = drafting_part(subject, subject.setup());
  ProposerDriver driver(*part);
  for (int i = 0; i < subject.rounds(40); ++i) {
    const Tokens text = repetitive_text(subject.random()(), 30);
    driver.observe({{1, 0, text}});
    driver.propose({wanted_for(driver, 1, text)});
    Wanted sampled = wanted_for(driver, 1, text);
    sampled.temperature = 1;
    driver.propose({sampled}, {.wants_distributions = tells && i % 2 == 1});
  }
}

// Calls propose once with these faults; the driver checks its drafts. Then expects the next call to give the drafts of
// a proposer that never met a fault.
void expect_recovery(Subject& subject, const PartSetup& setup, const RunnerFaults& faults, const char* what) {
  const auto part = drafting_part(subject, setup), fresh = subject.make_active(setup);
  ProposerDriver driver(*part), other(*fresh);
  const Tokens one = repetitive_text(21, 90), two = repetitive_text(22, 70);
  const ProposalForm form{.branches = branches_of(setup)};
  const std::vector<Wanted> wanted = {wanted_for(driver, 1, one), wanted_for(driver, 2, two)};
  driver.observe({{1, 0, {one.begin(), one.begin() + 40}}, {2, 0, {two.begin(), two.begin() + 40}}});
  part->runners().set_faults(faults);
  const Answer answer =
      driver.try_observe({{1, 40, {one.begin() + 40, one.end()}}, {2, 40, {two.begin() + 40, two.end()}}});
  if (answer.ok()) driver.try_propose(wanted, form);  // the host asks for sequences that were reported only
  part->runners().set_faults({});
  // After a failed observe the host reports whole histories.
  if (!answer.ok()) driver.observe({{1, 0, one}, {2, 0, two}});
  other.observe({{1, 0, one}, {2, 0, two}});
  expect(driver.propose(wanted, form) == other.propose(wanted, form),
         "after {}, it drafts something else than an instance that met none", what);
  driver.end({1, 2});
  expect(part->runners().num_sequences() == 0, "after {}, its runner keeps {} sequences that have ended", what,
         part->runners().num_sequences());
}

void survives_missing_draws(Subject& subject) {
  for (const PartSetup& setup : {subject.setup(), tree_setup(subject)}) {
    for (const std::int32_t first : {1, 2, 64}) {
      expect_recovery(subject, setup, {.num_without_draw = first}, "a step that draws nothing for some sequences");
    }
  }
}

void survives_failures(Subject& subject) {
  for (const PartSetup& setup : {subject.setup(), tree_setup(subject)}) {
    expect_recovery(subject, setup, {.update = true}, "a failed update of the runner");
    expect_recovery(subject, setup, {.step = true}, "a failed step of the runner");
    expect_recovery(subject, setup, {.fork = true}, "a failed fork of the runner");
  }
}

// A proposer that can do without the runner may go on; any other must fail the call, not crash.
void expect_told(Subject& subject, Part& part, const char* what) {
  expect(part.created().ok(), "create fails where {}, which only bind can know: {}", what, part.created().text());
  const Answer answer = subject.bind(part);
  expect(answer.status != MORTISE_INTERNAL, "bind fails with INTERNAL where {}; the part could never be destroyed",
         what);
  if (answer.ok()) {
    expect(part.activate(usual_sizes()).ok(), "bind is OK where {}, and activate then fails", what);
    behaviour(subject, part, 3);
  }
  part.destroy();
  expect(part.host().allocated_bytes() == 0, "{} bytes of the host's memory are left where {}",
         part.host().allocated_bytes(), what);
}

void tells_what_it_lacks(Subject& subject) {
  drafting_part(subject, subject.setup());
  PartSetup setup = subject.setup();
  setup.offers_runners = false;
  Part alone(subject.component(), std::move(setup));
  expect_told(subject, alone, "the host offers no runner");
  Part refused(subject.component(), subject.setup());
  refused.runners().set_faults({.open = true});
  expect_told(subject, refused, "the draft model cannot be opened");
}

constexpr Case kRunnerCases[] = {
    {"runner.closed", "Runners that the proposer opens are closed when it is destroyed.", kOfProposer,
     closes_its_runners},
    {"runner.ends", "The proposer's runner keeps no sequence that has ended, and no fork of one.", kOfProposer,
     ends_what_has_ended},
    {"runner.vocabulary", "Drafts are tokens of the target, also where the draft model has more.", kOfProposer,
     drafts_are_the_targets_tokens, true},
    {"runner.no_draws", "A sequence for which the runner draws nothing gets no draft in that step.", kOfProposer,
     survives_missing_draws},
    {"runner.failures", "A failed call of the runner costs the drafts of one step.", kOfProposer, survives_failures},
    {"runner.missing", "Without a runner, bind fails with a message, or the proposer drafts in another way.",
     kOfProposer, tells_what_it_lacks},
};

}  // namespace

std::span<const Case> runner_cases() {
  return kRunnerCases;
}

}  // namespace mortise::conformance
