// The options of a draft model: its path, its memory and its attention.
#include "runner/runner_service.hpp"

#include <gmock/gmock.h>

#include "runner_fixture.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

class RunnerServiceTest : public RunnerTest {};

std::string open_error(const std::filesystem::path& model, const RigOptions& options) {
  try {
    Rig rig(model, options);
    return "";
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

TEST_F(RunnerServiceTest, PathMemoryAndAttentionOptionsAreChecked) {
  const std::filesystem::path& model = models_[0].folder;
  EXPECT_EQ(open_error(model, {.path = ""}), "the draft model has no path: give the folder of its checkpoint");
  EXPECT_EQ(open_error(model, {.kv_memory = "'12 monkeys'"}),
            "option 'kv_memory' is \"12 monkeys\" (a string); expected \"auto\", bytes, or a text such as \"512MiB\" "
            "with KiB, MiB or GiB");
  EXPECT_THAT(open_error(model, {.kv_memory = "100"}),
              HasSubstr("kv_memory of 100 bytes holds no block of 16 tokens of the draft model in " + model.string()));
  EXPECT_THAT(open_error(model, {.kv_memory = "'900000GiB'"}), HasSubstr(" does not fit the "));
  // More than that device has addresses for; a machine with less memory refuses it before.
  EXPECT_THAT(open_error(model, {.device = "remote", .kv_memory = "'17GiB'"}),
              ::testing::AnyOf(
                  HasSubstr(" bytes of KV cache for the draft model in " + model.string() +
                            ": device 'remote': allocate: the remote memory is used up (RESOURCE_EXHAUSTED); lower "
                            "the proposer's kv_memory"),
                  HasSubstr("; lower it")));
  EXPECT_THAT(open_error(model, {.attention = "{'block_sise': 32}"}), HasSubstr("did you mean 'block_size'?"));
  EXPECT_EQ(open_error(model, {.kv_memory = "'1MiB'", .attention = "{'block_size': 32}"}), "");
}

TEST_F(RunnerServiceTest, ItsDevicesAreRanksOfThePipeline) {
  const std::filesystem::path& model = models_[0].folder;
  EXPECT_EQ(open_error(model, {.devices = "[1]"}),
            "option 'devices' names rank 1, but the pipeline has 1, counted from 0");
  EXPECT_NE(open_error(model, {.devices = "[]"}), "");
  EXPECT_NE(open_error(model, {.devices = "[0, 0]"}), "");
}

TEST_F(RunnerServiceTest, UnderRejectionItsMemoryHoldsWhatTheTargetsDoes) {
  const std::filesystem::path& model = models_[0].folder;
  RigOptions options{.target_blocks = 20, .rejection = true, .kv_memory = "'64KiB'"};
  const std::string error = open_error(model, options);
  EXPECT_THAT(error, HasSubstr("kv_memory of 65536 bytes holds "));
  EXPECT_THAT(error, HasSubstr(" tokens of the draft model in " + model.string()));
  // 20 blocks of the target, and two for each of the 8 sequences.
  EXPECT_THAT(error, HasSubstr("beside the target's KV cache of 320 tokens it must hold 576: "));
  // What it says helps.
  const std::string to = "raise kv_memory to ";
  options.kv_memory = error.substr(error.find(to) + to.size());
  options.kv_memory.resize(options.kv_memory.find(' '));
  EXPECT_EQ(open_error(model, options), "");
  options.kv_memory = "'auto'";
  EXPECT_EQ(open_error(model, options), "");
  options.kv_memory = "'64KiB'";
  options.rejection = false;
  EXPECT_EQ(open_error(model, options), "");
}

}  // namespace
}  // namespace mortise::test
