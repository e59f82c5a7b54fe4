// The suite as a whole: its cases, their selection and the report. Plugins that are not broken pass.
// Covers: runtime/conformance/{case,subject}
#include "conformance/suite.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

TEST(Suite, PluginsThatAreNotBrokenPass) {
  for (const char* file : {"broken_scheduler", "broken_proposer", "broken_device"}) {
    const auto findings = run(file, nlohmann::json::object(), {});
    EXPECT_EQ(text_of(findings, Outcome::kFailed), "") << file;
    EXPECT_GT(findings.size(), 40u);
  }
}

TEST(Suite, AtLeastThirtyCasesAreOfEachKind) {
  for (const PartKind kind : kAllKinds) {
    EXPECT_GE(std::ranges::count_if(all_cases(), [&](const Case& rule) { return (rule.kinds & of_kind(kind)) != 0; }),
              30)
        << kind_name(kind);
  }
}

TEST(Suite, NamesAreUnique) {
  std::set<std::string> names;
  for (const Case& rule : all_cases()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
}

TEST(Suite, ALineOfAReportRunsTheSameCaseWithTheSameSeed) {
  CheckOptions check;
  Selection selection;
  apply_reproduce_line("my_policy/scheduler.mix/77", check, selection);
  EXPECT_EQ(selection.component, "my_policy");
  EXPECT_EQ(selection.cases, std::vector<std::string>{"scheduler.mix"});
  EXPECT_EQ(check.seed, 77u);
  for (const char* line : {"", "a/b", "a/b/", "a/b/x", "a/b/1x"}) {
    EXPECT_THROW(apply_reproduce_line(line, check, selection), Error) << line;
  }
}

TEST(Suite, UnknownCasesComponentsAndFilesAreNamed) {
  EXPECT_THROW(run("broken_scheduler", nlohmann::json::object(), {"scheduler.no_such_case"}), Error);
  EXPECT_EQ(run("no_such_file", nlohmann::json::object(), {"file.loads"})[0].result.outcome, Outcome::kFailed);
}

TEST(Suite, EachCaseIsAnnouncedWithItsNumber) {
  CheckOptions check;
  check.file = std::filesystem::path(BROKEN_PLUGIN_DIR) / "broken_proposer.so";
  Selection selection;
  selection.cases = {"file.", "proposer.tokens", "proposer.ids"};
  std::vector<std::string> told;
  SuiteEvents events;
  events.on_start = [&](const CaseStart& start) {
    told.push_back(fmt::format("{} of {}: {}", start.number, start.total, start.rule->name));
  };
  events.on_finding = [&](const Finding& finding) { told.push_back(finding.rule->name); };
  const auto findings = run_suite(check, selection, {}, events);
  ASSERT_EQ(findings.size(), 7u);
  EXPECT_EQ(told.front(), "1 of 7: file.exports");  // before the file was loaded: its manifest names the component
  EXPECT_EQ(told[1], "file.exports");
  EXPECT_EQ(told[12], "7 of 7: proposer.ids");
}

TEST(Suite, TheReportHasEveryCase) {
  const auto findings = run("broken_proposer", {{"defect", "cycle"}}, {"proposer."});
  CheckOptions check;
  check.file = "x.so";
  const nlohmann::json json = report(check, findings);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["cases"].size(), findings.size());
  EXPECT_EQ(json["cases"][0]["kind"], "proposer");
}

}  // namespace
}  // namespace mortise::conformance
