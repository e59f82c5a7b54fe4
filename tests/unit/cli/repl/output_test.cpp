// What a dialogue prints.
#include "cli/repl/console.hpp"
#include "cli/repl/state.hpp"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(Harmless, ControlCharactersCannotCommandATerminal) {
  EXPECT_EQ(harmless("a\n\tb"), "a\n\tb");
  EXPECT_EQ(harmless("\033[2J\r\a\x7f"), "^[[2J^M^G^?");
  EXPECT_EQ(harmless("\u009b2J"), "\uFFFD2J");  // CSI of eight bits
  EXPECT_EQ(harmless("é 中 😀 \u00a0"), "é 中 😀 \u00a0");
  EXPECT_EQ(harmless("\xc2"), "\xc2");
}

TEST(Commands, AnUnknownOneIsToldWithTheNearest) {
  EXPECT_EQ(error_of([] { find_command("/sett"); }),
            "unknown command /sett; did you mean '/set'? /help lists them, // sends text that begins with /");
  EXPECT_EQ(error_of([] { find_command("/etc/passwd"); }),
            "unknown command /etc/passwd; /help lists them, // sends text that begins with /");
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
