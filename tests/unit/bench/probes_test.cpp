#include "bench/probes.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "bench/scenarios.hpp"

namespace mortise::bench {
namespace {

TEST(BenchProbes, EveryThreadRunsTheBodyOnce) {
  for (const std::size_t threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> runs(threads);
    const double seconds = run_on_threads(threads, [&](std::size_t t) { ++runs.at(t); });
    EXPECT_GT(seconds, 0);
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

// No figure is asserted: what a machine does is what these are to find out.
TEST(BenchProbes, EveryUnitOfThisMachineRuns) {
  ASSERT_FALSE(available_units().empty());
  for (const Unit unit : available_units()) {
    SCOPED_TRACE(unit_name(unit));
    EXPECT_GT(run_unit(unit, 1), 0);
    EXPECT_DOUBLE_EQ(run_unit(unit, 10), 10 * run_unit(unit, 1));
    EXPECT_GT(unit_operations_per_s(unit, 2), 0);
  }
}

TEST(BenchProbes, ReadsAreRoundedToWholeTurnsOfEachThread) {
  EXPECT_EQ(ReadProbe(10000, 3).bytes(), 3u * 6 * 512);
  EXPECT_EQ(ReadProbe(1, 2).bytes(), 2u * 512);  // 0: nothing would be read
  EXPECT_GT(ReadProbe(1 << 20, 2).bytes_per_s(), 0);
}

TEST(BenchProbes, AnInstructionSetHasTheUnitThatItsProductsUse) {
  const auto has = [](Unit unit) {
    const auto& units = available_units();
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  EXPECT_EQ(unit_of_isa("amx", false) == Unit::kAmxBf16, has(Unit::kAmxBf16));
  EXPECT_EQ(unit_of_isa("amx", true) == Unit::kAmxInt8, has(Unit::kAmxInt8));
  EXPECT_EQ(unit_of_isa("avx512", false) == Unit::kAvx512Fma, has(Unit::kAvx512Fma));
  EXPECT_EQ(unit_of_isa("avx2", false) == Unit::kAvx2Fma, has(Unit::kAvx2Fma));
  EXPECT_EQ(unit_of_isa("avx2", true), std::nullopt);  // integer products of AVX2 are not measured
  EXPECT_EQ(unit_of_isa("sm_90", false), std::nullopt);
}

}  // namespace
}  // namespace mortise::bench
