// The limits of a device whose memory the host cannot touch (tests/property/remote). No figure is asserted: how fast it
// is is what they are to find out. A host access to device memory ends the program here.
#include "bench_command/device_probes.hpp"

#include <algorithm>

#include "bench_command/scenarios.hpp"
#include "test_support.hpp"
#include "variables.hpp"

namespace mortise::bench {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr ProductSizes kSmall = {.n = 128, .k = 192, .rows = 64};

class BenchDeviceProbes : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = MORTISE_BINARY_DIR ":" MORTISE_BINARY_DIR "/tests/property/remote";
    test::set_variable("MORTISE_PLUGIN_PATH", path);
  }
  void TearDown() override { test::set_variable("MORTISE_PLUGIN_PATH", std::nullopt); }

  // The random weights of `tiny` on that device; `options` of the model.
  SubjectChoice tiny_on(const std::string& device, const std::string& options = "") {
    const std::string text =
        "return pipeline { device = " + device + " { threads = 1 }, model = llama { path = script_dir" + options +
        " }, attention = paged {}, scheduler = fcfs { max_num_seqs = 4, max_batched_tokens = 64 }, "
        "kv_cache = { memory = \"8MiB\" } }";
    write_text(folder_.path() / "pipeline.lua", text);
    SubjectChoice choice;
    choice.script = folder_.path() / "pipeline.lua";
    choice.shape = &model_shape("tiny");
    choice.probe_sizes = kSmall;
    return choice;
  }
  std::unique_ptr<ProbedDevice> open(const std::string& device) {
    const PipelineScript script = load_subject_script(tiny_on(device));
    return ProbedDevice::open(script.pipelines().front());
  }

  TempFolder folder_;
};

TEST_F(BenchDeviceProbes, OnlyADeviceWithMemoryOfItsOwnIsMeasuredByItsTable) {
  EXPECT_EQ(open("cpu"), nullptr);
  ASSERT_NE(open("remote"), nullptr);
}

TEST_F(BenchDeviceProbes, AProductSaysItsSizesAndRuns) {
  const auto device = open("remote");
  ProductProbe probe(*device, kSmall);
  EXPECT_EQ(probe.name(), "bf16 product 64 x 128 x 192");
  EXPECT_EQ(probe.weight_bytes(), 128u * 192 * 2);
  EXPECT_GT(probe.row_bytes_per_s(), 0);
  EXPECT_GT(probe.copy_bytes_per_s(), 0);
  EXPECT_GT(probe.operations_per_s(), 0);
}

// Else the bandwidth would be that of the cache, or of nothing, and each floor too low.
TEST_F(BenchDeviceProbes, TheProductOfAGpuIsLargerThanItsCaches) {
  constexpr ProductSizes sizes;
  constexpr std::int64_t kCache = std::int64_t{64} << 20;
  EXPECT_GE(sizes.n * sizes.k * 2, 8 * kCache);
  EXPECT_GE(sizes.rows * sizes.k * 2, 2 * kCache);
}

TEST_F(BenchDeviceProbes, TheMemoryThatIsMissingIsTold) {
  const auto device = open("remote");
  const ProductSizes too_large = {.n = 64, .k = 192, .rows = std::int64_t{64} << 20};
  EXPECT_THAT(error_of([&] { ProductProbe(*device, too_large); }), HasSubstr("allocate: the remote memory is used up"));
}

TEST_F(BenchDeviceProbes, StepsAreHeldAgainstTheDeviceThatTheyRunOn) {
  Subject subject(tiny_on("remote", ", dtype = \"bf16\""), nullptr);
  Sizes sizes;
  sizes.batches = {2};
  sizes.prompt = 8;
  sizes.output = 4;
  Scenario scenario = decode_scenario(subject, sizes);
  ASSERT_NE(scenario.probes, nullptr);
  EXPECT_EQ(scenario.probes->movement(), "read");
  EXPECT_EQ(scenario.probes->unit(), "bf16 product 64 x 128 x 192");
  EXPECT_EQ(scenario.probes->working_set_bytes(), 128u * 192 * 2);
  const Measurement result = measure(scenario, 2);
  ASSERT_EQ(result.limits.size(), 2u);
  for (const Limits& limits : result.limits) {
    EXPECT_GT(limits.read_bytes_per_s, 0);
    EXPECT_GT(limits.operations_per_s.value_or(0), 0);
  }
  EXPECT_GT(result.figures.at(0).floor.value_or(0), 0);
  EXPECT_GT(result.figures.at(0).ratio.value_or(0), 0);
}

// A product in bf16 says nothing of one in another type.
TEST_F(BenchDeviceProbes, OtherTypesHaveAFloorOfReadingAlone) {
  for (const char* options : {", dtype = \"f32\"", ", dtype = \"bf16\", weights = \"int8\""}) {
    SCOPED_TRACE(options);
    Subject subject(tiny_on("remote", options), nullptr);
    const auto probes = subject.make_probes();
    EXPECT_EQ(probes->unit(), std::nullopt);
    const Limits limits = probes->sample();
    EXPECT_GT(limits.read_bytes_per_s, 0);
    EXPECT_EQ(limits.operations_per_s, std::nullopt);
  }
}

TEST_F(BenchDeviceProbes, AProcessorsStepsAreHeldAgainstItsMemory) {
  Subject subject(tiny_on("cpu"), nullptr);
  EXPECT_NE(dynamic_cast<ProcessorProbes*>(subject.make_probes().get()), nullptr);
}

TEST_F(BenchDeviceProbes, AStartIsHeldAgainstTheWayToTheDevice) {
  const Scenario scenario = startup_scenario(tiny_on("remote"));
  ASSERT_NE(scenario.probes, nullptr);
  EXPECT_EQ(scenario.probes->movement(), "upload");
  EXPECT_EQ(scenario.probes->unit(), std::nullopt);
  EXPECT_GT(scenario.probes->sample().read_bytes_per_s, 0);
  EXPECT_EQ(startup_scenario(tiny_on("cpu")).probes->movement(), "read");
}

TEST_F(BenchDeviceProbes, LimitsOfADeviceAreThoseOfItsMemoryAndItsProducts) {
  const auto device = open("remote");
  std::vector<std::string> names;
  for (const Figure& figure : measure_limits(2, *device, kSmall)) {
    names.push_back(figure.name + ", " + figure.unit);
    EXPECT_EQ(figure.samples.size(), 2u);
    EXPECT_GT(figure.value, 0);
  }
  EXPECT_THAT(names, ElementsAre("read memory, a product with 1 row, GB/s", "copy memory, read and written, GB/s",
                                 "upload, from page-locked memory, GB/s", "bf16 product 64 x 128 x 192, GFLOP/s"));
}

}  // namespace
}  // namespace mortise::bench
