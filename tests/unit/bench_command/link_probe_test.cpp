// The links of ranks that a processor divides. No figure is asserted: how fast they are is what the probe is to find
// out.
#include "bench_command/link_probe.hpp"

#include "bench_command/scenarios.hpp"
#include "test_support.hpp"
#include "variables.hpp"

namespace mortise::bench {
namespace {

using namespace test;

class BenchLinkProbe : public testing::Test {
 protected:
  void SetUp() override { test::set_variable("MORTISE_PLUGIN_PATH", MORTISE_BINARY_DIR); }
  void TearDown() override { test::set_variable("MORTISE_PLUGIN_PATH", std::nullopt); }

  // The random weights of `tiny` on a cpu with these options.
  SubjectChoice tiny_on(const std::string& options) {
    const std::string text =
        "return pipeline { device = cpu { " + options +
        " }, model = llama { path = script_dir }, attention = paged {}, scheduler = fcfs { max_num_seqs = 4, "
        "max_batched_tokens = 64 }, kv_cache = { memory = \"8MiB\" } }";
    write_text(folder_.path() / "pipeline.lua", text);
    SubjectChoice choice;
    choice.script = folder_.path() / "pipeline.lua";
    choice.shape = &model_shape("tiny");
    return choice;
  }

  TempFolder folder_;
};

TEST_F(BenchLinkProbe, RanksHaveLinksAndOneRankHasNone) {
  Subject one(tiny_on("threads = 2"), nullptr), two(tiny_on("threads = 2, shards = 2"), nullptr);
  const auto alone = one.make_probes(), linked = two.make_probes();
  EXPECT_EQ(alone->num_ranks(), 1);
  EXPECT_EQ(alone->sample().links, std::nullopt);
  EXPECT_EQ(linked->num_ranks(), 2);
  EXPECT_EQ(linked->movement(), "read");
  EXPECT_EQ(linked->unit(), alone->unit());
  for (int i = 0; i < 2; ++i) {
    const Limits limits = linked->sample();
    ASSERT_TRUE(limits.links.has_value());
    EXPECT_GT(limits.links->latency_s, 0);
    EXPECT_GT(limits.links->bytes_per_s, 0);
    EXPECT_GT(limits.read_bytes_per_s, 0);
  }
}

// Of 4096 tokens and 288 columns each rank has half, and of its KV three of six heads.
TEST_F(BenchLinkProbe, TheCostIsThatOfARank) {
  Subject one(tiny_on("threads = 2"), nullptr), two(tiny_on("threads = 2, shards = 2"), nullptr);
  const ModelCost whole = one.cost(), half = two.cost();
  EXPECT_EQ(half.body_elements, whole.body_elements / 2);
  EXPECT_EQ(half.head_elements, whole.head_elements / 2);
  EXPECT_EQ(half.weight_bytes, whole.weight_bytes / 2);
  EXPECT_EQ(half.kv_bytes, whole.kv_bytes / 2);
  EXPECT_EQ(half.attention_width, whole.attention_width / 2);
  const double element = whole.weight_bytes / (whole.body_elements + whole.head_elements);
  EXPECT_EQ(half.exchanges, (std::vector<Exchanges>{{13, 144 * element}, {6, 144 * element}, {6, 384 * element}}));
  EXPECT_EQ(half.head_exchange_bytes, 4 * 2048);
  EXPECT_TRUE(whole.exchanges.empty());
}

// Of three threads the second rank has one.
TEST_F(BenchLinkProbe, TheSlowestRankDecides) {
  Subject even(tiny_on("threads = 2, shards = 2"), nullptr), uneven(tiny_on("threads = 3, shards = 2"), nullptr);
  const auto of_even = static_cast<double>(even.make_probes()->working_set_bytes());
  const auto of_uneven = static_cast<double>(uneven.make_probes()->working_set_bytes());
  EXPECT_NEAR(of_uneven / of_even, 2.0 / 3, 0.01);
}

TEST_F(BenchLinkProbe, TheEngineRunsBetweenTwoSamples) {
  Subject subject(tiny_on("threads = 2, shards = 2"), nullptr);
  Sizes sizes;
  sizes.batches = {2};
  sizes.prompt = 8;
  sizes.output = 4;
  const Figure figure = measure(decode_scenario(subject, sizes), 2).figures.at(0);
  EXPECT_GT(figure.floor.value_or(0), 0);
  EXPECT_GT(figure.links.value_or(0), 0);
  EXPECT_LT(figure.links.value_or(1), 1);
}

}  // namespace
}  // namespace mortise::bench
