// Covers: runtime/cli/plugin/{plugin,commands}
#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(CliPlugin, ListHasAHeadingForEachKindWithItsPlugins) {
  const Outcome outcome = mortise_with_toys("plugin list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* kind : {"device", "model", "attention", "proposer", "scheduler"}) {
    EXPECT_THAT("\n" + outcome.out, ContainsRegex(std::string("\n") + kind + "\n"));
    EXPECT_THAT(outcome.out, ContainsRegex(std::string("  toy_") + kind + " +toy_device.so +1.2.3  a part for tests"));
  }
}

TEST(CliPlugin, ListShowsRefusedFilesWithTheReason) {
  const std::string bad_plugins = (fs::path(TEST_PLUGIN_DIR) / "bad").string();
  const Outcome outcome = run_program(MORTISE, "plugin list", "", "MORTISE_PLUGIN_PATH=" + bad_plugins);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\nrefused\n"));
  EXPECT_THAT(outcome.out, HasSubstr("/wrong_major.so: is built for plugin ABI major 7"));
}

TEST(CliPlugin, AnInstalledProgramFindsItsPluginsUnderLib) {
  const TempFolder prefix;
  fs::create_directories(prefix.path() / "bin");
  fs::create_directories(prefix.path() / "lib" / "mortise" / "plugins");
  fs::copy_file(MORTISE, prefix.path() / "bin" / "mortise");
  fs::copy_file(good("lively"), prefix.path() / "lib" / "mortise" / "plugins" / "lively.so");
  const Outcome outcome =
      run_program((prefix.path() / "bin" / "mortise").string(), "plugin list", "", "MORTISE_PLUGIN_PATH=");
  EXPECT_THAT(outcome.out, HasSubstr("lively.so"));
}

}  // namespace
}  // namespace mortise
