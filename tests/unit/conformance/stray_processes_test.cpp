// Processes that a plugin starts are found, and none of them outlives its case.
#include "conformance/stray_processes.hpp"

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "broken_plugins.hpp"
#include "defects.hpp"
#include "variables.hpp"

namespace mortise::conformance {
namespace {

using testing::HasSubstr;

// The number of processes of this machine with that name.
int count_processes(const std::string& name) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    count += std::getline(file, comm) && comm == name;
  }
  return count;
}

class StrayProcessesTest : public testing::Test {
 protected:
  StrayProcessesTest() : name_("stray" + std::to_string(::getpid())) { test::set_variable("STRAY_NAME", name_); }
  ~StrayProcessesTest() override { test::set_variable("STRAY_NAME", std::nullopt); }

  const std::string name_;
};

struct LeftBehind {
  const char* file;
  const char* text;
};

TEST_F(StrayProcessesTest, AFileThatStartsOneIsFoundAndTheProcessEnds) {
  for (const LeftBehind& left : {LeftBehind{"broken_process_at_loading", "loading changes the child processes"},
                                 LeftBehind{"broken_daemon_at_loading", "loading changes the child processes"},
                                 LeftBehind{"broken_twin_at_loading", "loading changes the child processes"},
                                 LeftBehind{"broken_hidden_daemon_at_loading", "it leaves the process 'stray"},
                                 LeftBehind{"broken_chain_at_loading", "processes"}}) {
    const auto findings = run(left.file, nlohmann::json::object(), {"load.quiet"});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].result.outcome, Outcome::kFailed) << left.file;
    EXPECT_THAT(findings[0].result.text, HasSubstr(left.text)) << left.file;
    EXPECT_EQ(count_processes(name_), 0) << left.file;
  }
}

TEST_F(StrayProcessesTest, EveryCaseOfAFileThatLeavesOneFails) {
  const auto findings = run("broken_daemon_at_loading", nlohmann::json::object(), {"file.loads", "entry."});
  EXPECT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.result.outcome, Outcome::kFailed);
    EXPECT_EQ(finding.result.text, "it leaves the process '" + name_ + "' behind");
  }
  EXPECT_EQ(count_processes(name_), 0);
}

TEST_F(StrayProcessesTest, AnInstanceThatStartsOneIsFound) {
  const auto created = run("broken_proposer", {{"defect", "starts_process"}}, {"life.threads"});
  EXPECT_EQ(created[0].result.text, "a process that it has started is left after destroy");
  const auto stepped = run("broken_proposer", {{"defect", "starts_daemon_in_step"}}, {"proposer.one_token"});
  EXPECT_EQ(stepped[0].result.text, "it leaves the process '" + name_ + "' behind");
  EXPECT_EQ(count_processes(name_), 0);
}

TEST_F(StrayProcessesTest, TheProcessesOfAnEndedCaseAreCountedAndOthersAreSpared) {
  const pid_t own = broken::start_stray();
  std::string text;
  {
    StrayProcesses strays;
    for (int i = 0; i < 3; ++i) broken::start_daemon();
    EXPECT_EQ(child_processes().size(), 4u);
    text = strays.end_all();
    EXPECT_EQ(strays.end_all(), "");
  }
  EXPECT_THAT(text, HasSubstr("it leaves 3 processes behind, the first of them '"));
  EXPECT_EQ(child_processes(), std::set<pid_t>{own});
  int adopts = -1;
  ::prctl(PR_GET_CHILD_SUBREAPER, &adopts);
  EXPECT_EQ(adopts, 0);  // 1: orphans would still become children of this process
  ::kill(own, SIGKILL);
  ::waitpid(own, nullptr, 0);
}

}  // namespace
}  // namespace mortise::conformance
