#include "bench_command/cost.hpp"

#include <gtest/gtest.h>

namespace mortise::bench {
namespace {

// A model of two layers with round numbers: a step reads 1200 bytes of weights.
ModelCost small() {
  ModelCost cost;
  cost.body_elements = 400;
  cost.head_elements = 200;
  cost.weight_bytes = 1200;
  cost.kv_bytes = 10;
  cost.attention_width = 8;
  cost.windows = {0, 0};
  return cost;
}

// `160m` of docs/performance.md.
ModelCost the_160m() {
  ModelCost cost;
  cost.body_elements = 12 * (4 * 768.0 * 768 + 3 * 768.0 * 3072);
  cost.head_elements = 32000.0 * 768;
  cost.weight_bytes = 2 * (cost.body_elements + cost.head_elements);
  cost.kv_bytes = 2 * 12 * 64 * 2;
  cost.attention_width = 768;
  cost.windows.assign(12, 0);
  return cost;
}
constexpr Limits kMeasured{33.5e9, 5.7e12};  // two cores of a Sapphire Rapids Xeon

TEST(BenchCost, WindowsBoundWhatALayerSees) {
  ModelCost cost = small();
  cost.windows = {0, 4};
  EXPECT_EQ(visible_positions(cost, 3), 6);
  EXPECT_EQ(visible_positions(cost, 10), 14);  // 20: the window is ignored
}

TEST(BenchCost, ADecodeStepReadsWeightsOnceAndEachSequencesKv) {
  const std::vector<std::int64_t> contexts = {5, 7};
  const Work work = decode_step(small(), contexts);
  EXPECT_EQ(work.bytes, 1200 + 10 * 2 * (5 + 7));
  EXPECT_EQ(work.operations, 2 * 2 * (400 + 200) + 4 * 8 * 2 * (5 + 7));
}

TEST(BenchCost, PrefillRowsSeeWhatIsBeforeThem) {
  const Work work = prefill_rows(small(), 2, 4, 1);
  EXPECT_EQ(work.bytes, 0);
  EXPECT_EQ(work.operations, 2 * 400 * 2 + 2 * 200 + 4 * 8 * 2 * (3 + 4));
}

TEST(BenchCost, TheFloorIsTheLargerOfReadingAndComputing) {
  EXPECT_DOUBLE_EQ(*floor_seconds({100, 10}, {50, 10}), 2);
  EXPECT_DOUBLE_EQ(*floor_seconds({100, 100}, {50, 10}), 10);
  EXPECT_DOUBLE_EQ(*floor_seconds({100, 100}, {50, std::nullopt}), 2);
  EXPECT_EQ(floor_seconds({0, 100}, {50, std::nullopt}), std::nullopt);
}

TEST(BenchCost, DecodeFloorSumsStepsWhoseContextsGrow) {
  // Steps with contexts 4 and 5: (1200 + 10 * 2 * 4) + (1200 + 10 * 2 * 5) bytes at one byte a second.
  EXPECT_DOUBLE_EQ(decode_floor_seconds(small(), 1, 3, 3, {1, std::nullopt}), 1280 + 1300);
  EXPECT_EQ(decode_floor_seconds(small(), 1, 3, 1, {1, std::nullopt}), 0);  // its one token is the prompt's
}

// The figures that were worked out by hand for this machine: 121.6 (without KV), 807 and 2137 tokens/s.
TEST(BenchCost, FloorsOf160mAreTheKnownOnes) {
  const ModelCost cost = the_160m();
  EXPECT_NEAR(cost.weight_bytes, 275.6e6, 0.1e6);
  const auto tokens_per_s = [&](std::int64_t batch) {
    return static_cast<double>(batch * 127) / decode_floor_seconds(cost, batch, 128, 128, kMeasured);
  };
  EXPECT_NEAR(tokens_per_s(1), 118.5, 0.5);
  EXPECT_NEAR(tokens_per_s(8), 807, 1);
  EXPECT_NEAR(tokens_per_s(32), 2137, 5);
  Work prompt = prefill_rows(cost, 0, 1024, 0);
  EXPECT_NEAR(1024 / *floor_seconds(prompt, kMeasured), 23200, 100);
}

TEST(BenchCost, ABatchPrefillsThenDecodesInWaves) {
  const std::vector<SequenceShape> shapes = {{2, 2, 0}, {2, 3, 0}};
  const Limits limits{1, 1};
  const double prompts = 2 * prefill_rows(small(), 0, 2, 1).operations;
  const auto step = [&](std::vector<std::int64_t> contexts) {
    return *floor_seconds(decode_step(small(), contexts), limits);
  };
  EXPECT_DOUBLE_EQ(*batch_floor_seconds(small(), shapes, 2, limits), prompts + step({3, 3}) + step({4}));
  EXPECT_DOUBLE_EQ(*batch_floor_seconds(small(), shapes, 1, limits), prompts + step({3}) + step({4}) + step({3}));
  EXPECT_EQ(batch_floor_seconds(small(), shapes, 1, {1, std::nullopt}), std::nullopt);
}

TEST(BenchCost, CachedTokensAreNeitherComputedNorReadAgain) {
  const Limits limits{1e-3, 1e9};  // reading alone counts
  const std::vector<SequenceShape> apart = {{10, 2, 0}, {10, 2, 0}}, shared = {{10, 2, 0}, {10, 2, 8}};
  const double saved =
      *batch_floor_seconds(small(), apart, 2, limits) - *batch_floor_seconds(small(), shared, 2, limits);
  EXPECT_NEAR(saved, 10 * 2 * 8 / 1e-3, 1);  // kv bytes * layers * positions
}

// Two ranks: 3 exchanges of 4 bytes a row, 2 of 20, and one of 100 bytes a row with logits.
ModelCost of_two_ranks() {
  ModelCost cost = small();
  cost.exchanges = {{3, 4}, {2, 20}};
  cost.head_exchange_bytes = 100;
  return cost;
}

TEST(BenchCost, AnExchangeTakesItsLatencyOrItsBytes) {
  const ModelCost cost = of_two_ranks();
  const Limits limits{1, 1, LinkLimits{.latency_s = 50, .bytes_per_s = 1}};
  // One row: only the head's bytes take longer than the latency. Ten rows: those of 4 bytes are still shorter.
  EXPECT_DOUBLE_EQ(link_seconds(cost, {.rows = 1, .logits = 1}, limits), 3 * 50 + 2 * 50 + 100);
  EXPECT_DOUBLE_EQ(link_seconds(cost, {.rows = 10, .logits = 2}, limits), 3 * 50 + 2 * 200 + 200);
  EXPECT_DOUBLE_EQ(link_seconds(cost, {.rows = 10}, limits), 3 * 50 + 2 * 200);  // no head
  EXPECT_DOUBLE_EQ(link_seconds(cost, {.logits = 10}, limits), 1000);            // the head alone
  EXPECT_EQ(link_seconds(cost, {.rows = 10, .logits = 2}, {1, 1}), 0);
}

TEST(BenchCost, LinksAddToTheLargerOfReadingAndComputing) {
  const ModelCost cost = of_two_ranks();
  const Limits limits{50, 10, LinkLimits{.latency_s = 1, .bytes_per_s = 100}};
  EXPECT_DOUBLE_EQ(*floor_seconds(cost, {.bytes = 100, .operations = 100, .rows = 1}, limits), 10 + 5);
  EXPECT_EQ(floor_seconds(cost, {.operations = 100, .rows = 1}, {50, std::nullopt, limits.links}), std::nullopt);
}

TEST(BenchCost, EveryStepExchangesItsRows) {
  const ModelCost cost = of_two_ranks();
  const Limits alone{1, 1}, linked{1, 1, LinkLimits{.latency_s = 1, .bytes_per_s = 1}};
  const auto exchanged = [](double rows, double logits) { return rows * (3 * 4 + 2 * 20) + logits * 100; };
  // Two steps of two sequences.
  EXPECT_DOUBLE_EQ(decode_floor_seconds(cost, 2, 3, 3, linked),
                   decode_floor_seconds(cost, 2, 3, 3, alone) + 2 * exchanged(2, 2));
  // A prompt of 5 rows of which 2 are cached, then two steps.
  const std::vector<SequenceShape> shapes = {{5, 3, 2}};
  EXPECT_DOUBLE_EQ(*batch_floor_seconds(cost, shapes, 1, linked),
                   *batch_floor_seconds(cost, shapes, 1, alone) + exchanged(3, 1) + 2 * exchanged(1, 1));
}

TEST(BenchCost, WorkAddsUpAndIsMultiplied) {
  Work work{.bytes = 1, .operations = 2, .rows = 3, .logits = 4};
  work += {.bytes = 10, .operations = 20, .rows = 30, .logits = 40};
  work *= 2;
  EXPECT_EQ(work.bytes, 22);
  EXPECT_EQ(work.operations, 44);
  EXPECT_EQ(work.rows, 66);
  EXPECT_EQ(work.logits, 88);
}

}  // namespace
}  // namespace mortise::bench
