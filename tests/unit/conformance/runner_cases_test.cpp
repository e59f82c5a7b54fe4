// Each deliberately broken proposer with a draft model is caught by the case that should catch it.
// Covers: runtime/conformance/checked_runners runtime/runner/runner_options
#include <gmock/gmock.h>

#include <algorithm>

#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(
    Drafter, InAnInstance,
    testing::Values(
        Broken{"broken_drafter", "leaks_sequences", "runner.ends", "its runner keeps 2, 0 of them forks"},
        Broken{"broken_drafter", "leaks_forks", "runner.ends", "keeps 3, 3 of them forks: call the runner's `end`"},
        Broken{"broken_drafter", "takes_all_logits", "runner.vocabulary", "of a vocabulary of 512"},
        Broken{"broken_drafter", "drafts_what_was_not_drawn", "runner.vocabulary", "propose gives the token -1"},
        Broken{"broken_drafter", "drafts_what_was_not_drawn", "runner.no_draws", "propose gives the token -1"},
        Broken{"broken_drafter", "sorts_ids", "proposer.batch", "different drafts in another order"},
        Broken{"broken_drafter", "repeats_ids", "proposer.many", "a sequence is given twice (INVALID_ARGUMENT)"},
        Broken{"broken_drafter", "keeps_drafts", "proposer.repeated", "different drafts the second time"},
        Broken{"broken_drafter", "keeps_drafts", "runner.no_draws", "it drafts something else"},
        Broken{"broken_drafter", "ignores_failed_step", "runner.failures", "the token 100000 of a vocabulary of 512"},
        Broken{"broken_drafter", "ignores_failed_update", "runner.failures", "after a failed update of the runner"},
        Broken{"broken_drafter", "needs_runner", "runner.missing", "crashes with SEGV"},
        Broken{"broken_drafter", "ignores_failed_open", "runner.missing", "crashes with SEGV"},
        Broken{"broken_drafter", "never_closes", "runner.closed", "1 runners are open after destroy"},
        Broken{"broken_drafter", "closes_twice", "runner.closed", "close is called on a runner that was closed"},
        Broken{"broken_drafter", "opens_in_create", "runner.closed", "runners may be opened from bind on"},
        Broken{"broken_drafter", "updates_in_activate", "life.reactivated",
               "update of a runner is called outside of observe and propose"},
        Broken{"broken_drafter", "steps_on_a_thread", "behaviour.drawn",
               "step of a runner is called outside of observe and propose"},
        Broken{"broken_drafter", "odd_options", "runner.closed", "bind fails"},
        Broken{"broken_drafter", "old_struct", "proposer.limits", "step of a runner gets a struct_size of 8"}),
    [](const auto& info) { return std::string(info.param.defect) + "_" + std::to_string(info.index); });

TEST(Runners, AProposerWithADraftModelPassesEveryCase) {
  const auto findings = run("broken_drafter", nlohmann::json::object(), {});
  EXPECT_EQ(text_of(findings, Outcome::kFailed), "");
  const std::string not_applicable = text_of(findings, Outcome::kNotApplicable);
  EXPECT_THAT(not_applicable, HasSubstr("proposer.distributions"));
  EXPECT_EQ(std::ranges::count(not_applicable, '\n'), 1);
}

TEST(Runners, OtherProposersAreNotJudgedByThem) {
  for (const Finding& finding : run("broken_proposer", nlohmann::json::object(), {"runner."})) {
    EXPECT_EQ(finding.result.outcome, Outcome::kNotApplicable);
    EXPECT_EQ(finding.result.text, "it opens no runner (mortise/ext/runner.h)");
  }
}

}  // namespace
}  // namespace mortise::conformance
