// Covers: runtime/cli/commands
#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CliUsage, WrongUsageIsOneLineAndExitCode2) {
  for (const char* arguments : {"", "frobnicate", "plugin", "plugin info", "check", "check a.lua b.lua", "--frob"}) {
    const Outcome outcome = run_program(MORTISE, arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_TRUE(is_error_line(outcome.err)) << arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

TEST(CliUsage, AWordThatIsNoCommandIsNamedWithTheNearest) {
  const Outcome slip = run_program(MORTISE, "rnu x.lua");
  EXPECT_EQ(slip.exit_code, 2);
  EXPECT_THAT(slip.err,
              HasSubstr("there is no sub-command 'rnu'; did you mean 'run'?; there are: run, serve, ctl, batch, "));
  EXPECT_THAT(run_program(MORTISE, MORTISE_SOURCE_DIR "/models/demo").err,
              HasSubstr("; to run it: mortise run " MORTISE_SOURCE_DIR "/models/demo; there are: "));
}

TEST(CliUsage, HelpAndVersionGoToStandardOutput) {
  const Outcome version = run_program(MORTISE, "--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("mortise 0."));
  const Outcome help = run_program(MORTISE, "--help");
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command : {"plugin", "check", "tokenize", "detokenize"}) EXPECT_THAT(help.out, HasSubstr(command));
}

TEST(CliUsage, AFullDiskIsAnError) {
  const int status = std::system((std::string(MORTISE) + " plugin list >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace mortise
