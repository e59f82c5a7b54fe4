#include "test_command.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(CliPlugin, InfoTellsCapabilitiesNumericsAndOptions) {
  const Outcome outcome = mortise_with_toys("plugin info toy_attention");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("attention toy_attention\n"), HasSubstr("exact, multi_query"), HasSubstr("numerics      toy/1"),
            HasSubstr("block_size  integer  default 16; tokens per KV block (an integer from 1 to 256)")));
  EXPECT_THAT(mortise_with_toys("plugin info toy_model").out, HasSubstr("required; folder of the model"));
  EXPECT_THAT(mortise_with_toys("plugin info toy_proposer").out, HasSubstr("options       none"));
}

TEST(CliPlugin, InfoOfANameShowsEveryComponentOfIt) {
  EXPECT_THAT(mortise_with_toys("plugin info twin").out, AllOf(HasSubstr("twin-left.so"), HasSubstr("twin-right.so")));
}

TEST(CliPlugin, InfoOfAFileShowsAllOfIt) {
  const Outcome outcome = run_program(MORTISE, "plugin info " + good("toy_device").string());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("device toy_device"), HasSubstr("scheduler toy_scheduler")));
}

TEST(CliPlugin, InfoOfADeviceThatCannotBeUsedSaysSo) {
  EXPECT_THAT(mortise_with_toys("plugin info toy_device").out, HasSubstr("machine       cannot be used here: "));
}

TEST(CliPlugin, InfoOfWhatIsNoPluginIsAnErrorLine) {
  for (const std::string& what : {std::string("toy_devise"), bad("wrong_major").string(), std::string("./none.so")}) {
    const Outcome outcome = mortise_with_toys("plugin info " + what);
    EXPECT_EQ(outcome.exit_code, 1) << what;
    EXPECT_TRUE(is_error_line(outcome.err)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_THAT(mortise_with_toys("plugin info toy_devise").err, HasSubstr("did you mean 'toy_device'?"));
}

TEST(CliPlugin, TheCpuDeviceTellsWhatItRunsOn) {
  ASSERT_TRUE(fs::exists(fs::path(MORTISE_BINARY_DIR) / "cpu.so")) << "build all targets first";
  const Outcome outcome = run_program(MORTISE, "plugin info cpu");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, ContainsRegex("isa           (amx|avx512|avx2|neon|portable)\n"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("threads       "), HasSubstr("cpu-bf16/1 (bf16)")));
}

}  // namespace
}  // namespace mortise
