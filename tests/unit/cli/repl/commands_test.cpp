// The table of commands; tests/e2e/test_repl.py runs each of them.
// Covers: runtime/cli/repl/state
#include "cli/repl/state.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(Commands, AnUnknownOneIsToldWithTheNearest) {
  EXPECT_EQ(
      error_of([] { find_command("/sett"); }),
      "unknown command /sett; did you mean '/set'? /help lists all commands, and // sends text that begins with /");
  EXPECT_EQ(error_of([] { find_command("/etc/passwd"); }),
            "unknown command /etc/passwd; /help lists all commands, and // sends text that begins with /");
}

TEST(Commands, AreFoundWithOrWithoutTheSlash) {
  EXPECT_STREQ(find_command("set").name, "/set");
  EXPECT_STREQ(find_command("/save!").name, "/save!");
}

TEST(Commands, EachHasOneLineOfHelp) {
  for (const Command& command : all_commands()) {
    EXPECT_THAT(std::string(command.summary), testing::Not(testing::IsEmpty())) << command.name;
    EXPECT_THAT(std::string(command.summary), testing::Not(HasSubstr("\n"))) << command.name;
    EXPECT_EQ(command.name[0], '/');
  }
}

}  // namespace
}  // namespace mortise
