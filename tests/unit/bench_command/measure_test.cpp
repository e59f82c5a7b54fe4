#include "bench_command/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mortise::bench {
namespace {

using testing::ElementsAre;

// A case that returns these values in turn, after a warm-up, and writes its name into `log` when it runs.
Case scripted(std::string name, std::vector<double> values, std::string* log = nullptr, bool higher_is_better = true) {
  Case out;
  out.name = name;
  out.unit = higher_is_better ? "tokens/s" : "s";
  out.higher_is_better = higher_is_better;
  out.run = [=, i = std::size_t{0}](std::uint32_t) mutable {
    if (log != nullptr) *log += name;
    const double value = i == 0 ? 1000 : values[(i - 1) % values.size()];
    ++i;
    return Outcome{value, i == 2 ? "first" : ""};
  };
  return out;
}

Scenario scenario_of(std::vector<Case> cases, std::vector<Relation> relations = {}) {
  return {"test", std::move(cases), std::move(relations), nullptr};
}

TEST(BenchMeasure, CasesRunInTurnsAndTheWarmUpDoesNotCount) {
  std::string log;
  const Measurement result = measure(scenario_of({scripted("a", {3, 1, 2}, &log), scripted("b", {5}, &log)}), 3);
  EXPECT_EQ(log, "abababab");
  ASSERT_EQ(result.figures.size(), 2u);
  EXPECT_THAT(result.figures[0].samples, ElementsAre(3, 1, 2));
  EXPECT_EQ(result.figures[0].value, 2);
  EXPECT_EQ(result.figures[0].note, "first");
  EXPECT_EQ(result.figures[0].floor, std::nullopt);  // nothing measured the limits
  EXPECT_TRUE(result.limits.empty());
}

TEST(BenchMeasure, EachSampleHasTheLimitsOfItsMoment) {
  Case half = scripted("half", {0});
  double floor = 0;
  half.floor = [&](const Limits& limits) {
    EXPECT_GT(limits.read_bytes_per_s, 0);
    return std::optional(floor += 10);  // 10, 20, 30: a machine that becomes faster
  };
  half.run = [&](std::uint32_t) { return Outcome{(floor + 10) / 2, ""}; };
  Scenario scenario = scenario_of({half});
  scenario.probes = std::make_unique<ProcessorProbes>(std::size_t{1} << 16, 1, std::nullopt);
  const Measurement result = measure(scenario, 3);
  EXPECT_EQ(result.limits.size(), 3u);
  EXPECT_EQ(result.figures[0].floor, 20);
  EXPECT_DOUBLE_EQ(*result.figures[0].ratio, 0.5);
}

TEST(BenchMeasure, NearnessOfATimeIsFloorOverTime) {
  Case slow = scripted("slow", {4}, nullptr, /*higher_is_better=*/false);
  slow.floor = [](const Limits&) { return std::optional(1.0); };
  Scenario scenario = scenario_of({slow});
  scenario.probes = std::make_unique<ProcessorProbes>(std::size_t{1} << 16, 1, std::nullopt);
  EXPECT_DOUBLE_EQ(*measure(scenario, 1).figures[0].ratio, 0.25);
}

// Probes with the same limits each time.
class FixedProbes : public LimitProbes {
 public:
  explicit FixedProbes(const Limits& limits) : limits_(limits) {}
  Limits sample() override { return limits_; }
  std::string movement() const override { return "read"; }
  std::size_t working_set_bytes() const override { return 1; }
  std::optional<std::string> unit() const override { return std::nullopt; }

 private:
  Limits limits_;
};

// A floor of 3 s of which the links take 1 s.
TEST(BenchMeasure, TheShareOfTheLinksIsThatOfTheFloorsTime) {
  for (const bool rate : {false, true}) {
    Case out = scripted("linked", {rate ? 0.1 : 6}, nullptr, rate);
    out.floor = [rate](const Limits& limits) {
      const double seconds = 2 + (limits.links ? limits.links->latency_s : 0);
      return std::optional(rate ? 1 / seconds : seconds);
    };
    Scenario scenario = scenario_of({out});
    scenario.probes = std::make_unique<FixedProbes>(Limits{1, 1, LinkLimits{1, 1}});
    EXPECT_DOUBLE_EQ(*measure(scenario, 2).figures[0].links, 1.0 / 3) << rate;
    scenario.probes = std::make_unique<FixedProbes>(Limits{1, 1});
    EXPECT_EQ(measure(scenario, 2).figures[0].links, std::nullopt);
  }
}

TEST(BenchMeasure, ARelationSaysHowMuchTheOtherCosts) {
  // Rates: half the rate is twice the cost.
  const std::vector<Case> rates = {scripted("base", {100}), scripted("other", {50})};
  const Figure of_rates = measure(scenario_of(rates, {{"over", 0, 1}}), 6).figures.at(2);
  EXPECT_DOUBLE_EQ(of_rates.value, 2);
  EXPECT_DOUBLE_EQ(of_rates.bound->low, 2);
  const std::vector<Case> times = {scripted("base", {1}, nullptr, false), scripted("other", {3}, nullptr, false)};
  EXPECT_DOUBLE_EQ(measure(scenario_of(times, {{"over", 0, 1}}), 1).figures.at(2).value, 3);
}

TEST(BenchMeasure, ARelationOverTwoAddsWhatTheyTake) {
  const std::vector<Case> rates = {scripted("prefill", {100}), scripted("score", {40}), scripted("head", {300})};
  const Figure figure = measure(scenario_of(rates, {{"over both", 0, 1, 2}}), 6).figures.at(3);
  EXPECT_DOUBLE_EQ(figure.value, (1.0 / 40) / (1.0 / 100 + 1.0 / 300));
}

TEST(BenchMeasure, NoTwoRunsHaveTheSameSeed) {
  std::vector<std::uint32_t> seeds;
  Case watched = scripted("a", {1});
  watched.run = [&](std::uint32_t seed) {
    seeds.push_back(seed);
    return Outcome{1, ""};
  };
  measure(scenario_of({watched, watched}), 3);
  const std::size_t count = seeds.size();
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::unique(seeds.begin(), seeds.end()) - seeds.begin(), static_cast<std::ptrdiff_t>(count));
}

TEST(BenchMeasure, PairsAlternateWhoIsFirstAndShareTheWork) {
  std::string log;
  std::vector<std::uint32_t> of_a, of_b;
  Case a = scripted("a", {1}), b = scripted("b", {1});
  a.run = [&](std::uint32_t seed) { return log += "a", of_a.push_back(seed), Outcome{100, ""}; };
  b.run = [&](std::uint32_t seed) { return log += "b", of_b.push_back(seed), Outcome{103, ""}; };
  const auto comparisons = measure_pairs(scenario_of({a}), scenario_of({b}), 6);
  EXPECT_EQ(log,
            "ab"
            "abbaabbaabba");
  EXPECT_EQ(of_a, of_b);
  ASSERT_EQ(comparisons.size(), 1u);
  EXPECT_DOUBLE_EQ(comparisons[0].speed.ratio, 1.03);
  EXPECT_GT(comparisons[0].speed.bound->low, 1);
}

TEST(BenchMeasure, LessTimeIsMoreSpeed) {
  const Scenario a = scenario_of({scripted("t", {2}, nullptr, false)}),
                 b = scenario_of({scripted("t", {1}, nullptr, false)});
  EXPECT_DOUBLE_EQ(measure_pairs(a, b, 6).at(0).speed.ratio, 2);
}

}  // namespace
}  // namespace mortise::bench
