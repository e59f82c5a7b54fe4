// Covers: runtime/bench_command/peak
#include "bench_command/probes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "bench_command/scenarios.hpp"

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

// Instructions of a round, lanes, two operations each. The figures say how fast machines are; a wrong count makes all
// floors wrong.
TEST(BenchProbes, ARoundHasTheOperationsOfItsInstructions) {
  const std::map<Unit, double> expected = {
      {Unit::kAvx2Fma, 12 * 8 * 2},     {Unit::kAvx2Int8, 8 * 32 * 2},          {Unit::kAvx512Fma, 12 * 16 * 2},
      {Unit::kAvx512Int8, 12 * 64 * 2}, {Unit::kAmxBf16, 4 * 16 * 16 * 32 * 2}, {Unit::kAmxInt8, 4 * 16 * 16 * 64 * 2},
      {Unit::kNeonFma, 12 * 4 * 2},     {Unit::kNeonInt8, 12 * 8 * 2}};
  for (const Unit unit : available_units()) {
    if (!expected.contains(unit)) continue;
    EXPECT_EQ(run_unit(unit, 1), expected.at(unit)) << unit_name(unit);
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

TEST(BenchProbes, TheFasterUnitHasMoreOperationsASecond) {
  EXPECT_EQ(faster_of(Unit::kF32, Unit::kF32), Unit::kF32);
  const auto& units = available_units();
  if (std::find(units.begin(), units.end(), Unit::kAmxBf16) != units.end()) {  // 16 times as fast as FMA
    EXPECT_EQ(faster_of(Unit::kAmxBf16, Unit::kAvx512Fma), Unit::kAmxBf16);
    EXPECT_EQ(faster_of(Unit::kAvx512Fma, Unit::kAmxBf16), Unit::kAmxBf16);
  }
}

TEST(BenchProbes, ReadsAreRoundedToWholeTurnsOfEachThread) {
  EXPECT_EQ(ReadProbe(10000, 3).bytes(), 3u * 6 * 512);
  EXPECT_EQ(ReadProbe(1, 2).bytes(), 2u * 512);  // 0: nothing would be read
  EXPECT_GT(ReadProbe(1 << 20, 2).bytes_per_s(), 0);
}

TEST(BenchProbes, ARankHasItsShare) {
  EXPECT_EQ(ProcessorProbes(1 << 20, 2, std::nullopt, 0.25).working_set_bytes(), std::size_t{1} << 18);
}

TEST(BenchProbes, AnInstructionSetHasTheUnitThatItsProductsUse) {
  const auto has = [](Unit unit) {
    const auto& units = available_units();
    return std::find(units.begin(), units.end(), unit) != units.end();
  };
  constexpr const char* kTiles = "cpu-bf16/1; ..";
  EXPECT_EQ(unit_of_isa("amx", MORTISE_BF16, kTiles) == Unit::kAmxBf16, has(Unit::kAmxBf16));
  EXPECT_EQ(unit_of_isa("amx", MORTISE_I8, kTiles) == Unit::kAmxInt8, has(Unit::kAmxInt8));
  EXPECT_EQ(unit_of_isa("amx", MORTISE_I8_BLOCK32, kTiles) == Unit::kAmxInt8, has(Unit::kAmxInt8));
  EXPECT_EQ(unit_of_isa("avx2", MORTISE_I8_BLOCK32, kTiles) == Unit::kAvx2Int8, has(Unit::kAvx2Int8));
  EXPECT_EQ(unit_of_isa("amx", MORTISE_F32, kTiles) == Unit::kAvx512Fma,
            has(Unit::kAvx512Fma));  // tiles have no f32
  EXPECT_EQ(unit_of_isa("avx512", MORTISE_BF16, kTiles) == Unit::kAvx512Fma, has(Unit::kAvx512Fma));
  for (const char* isa : {"avx512", "amx"}) {
    const auto unit = unit_of_isa(isa, MORTISE_BF16, "cpu-bf16-pairs/1; ..");
    if (has(Unit::kAvx512Bf16)) {
      EXPECT_TRUE(unit == Unit::kAvx512Bf16 || unit == Unit::kAvx512Fma) << isa;
    } else {
      EXPECT_EQ(unit == Unit::kAvx512Fma, has(Unit::kAvx512Fma)) << isa;
    }
  }
  EXPECT_EQ(unit_of_isa("avx2", MORTISE_BF16, "cpu-bf16-pairs/1; ..") == Unit::kAvx2Fma, has(Unit::kAvx2Fma));
  EXPECT_EQ(unit_of_isa("avx512", MORTISE_I8, kTiles) == Unit::kAvx512Int8, has(Unit::kAvx512Int8));
  EXPECT_EQ(unit_of_isa("avx2", MORTISE_F32, kTiles) == Unit::kAvx2Fma, has(Unit::kAvx2Fma));
  EXPECT_EQ(unit_of_isa("avx2", MORTISE_I8, kTiles) == Unit::kAvx2Int8, has(Unit::kAvx2Int8));
  EXPECT_EQ(unit_of_isa("neon", MORTISE_F32, kTiles) == Unit::kNeonFma, has(Unit::kNeonFma));
  EXPECT_EQ(unit_of_isa("neon", MORTISE_I8, kTiles) == Unit::kNeonInt8, has(Unit::kNeonInt8));
  EXPECT_EQ(unit_of_isa("portable", MORTISE_I8, kTiles),
            std::nullopt);  // integer products of portable code are not measured
  EXPECT_EQ(unit_of_isa("sm_90", MORTISE_BF16, kTiles), std::nullopt);
}

}  // namespace
}  // namespace mortise::bench
