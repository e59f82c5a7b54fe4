// Paged attention through its ABI, row by row against the references: no schedule changes a bit.
// Covers: plugins/attention/span_cpu/{append,attention,plan_units,run}
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fixture.hpp"
#include "kernels/cpu/isa.hpp"

namespace mortise::test {
namespace {

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (cpu::Isa isa : cpu::available_isas()) names.push_back(cpu::isa_name(isa));
  return names;
}

// The tests below run on these alone, so none may be missing. The compiler knows the processor by itself, but AMX,
// which a process must ask for.
TEST(Paged, IsTestedOnEveryInstructionSetOfThisProcessor) {
  std::vector<std::string> expected = {"portable"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) expected.push_back("avx2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    expected.push_back("avx512");
  }
#elif defined(__aarch64__)
  expected.push_back("neon");
#endif
  std::vector<std::string> names = isas();
  std::erase(names, "amx");
  EXPECT_EQ(names, expected);
}

// Random sequences in random batches until each has its length; steps mix prefill chunks, decodes and draft rows, some
// of which are rolled back.
void run_random_schedule(const Config& config, const std::vector<int32_t>& lengths, std::mt19937& rng, Rows& rows) {
  const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
  Attention attention(config);
  for (;;) {
    std::vector<Run> runs;
    for (int32_t seq = 0; seq < static_cast<int32_t>(lengths.size()); ++seq) {
      const int32_t left = lengths[static_cast<std::size_t>(seq)] - attention.length(seq);
      if (left == 0 || draw(0, 4) == 0) continue;
      const int32_t most[] = {1, 5, 17, 90, 400};
      runs.push_back({seq, std::min(left, draw(1, most[draw(0, 4)]))});
    }
    if (draw(0, 5) == 0) runs.push_back({1000, 0});  // padding
    std::shuffle(runs.begin(), runs.end(), rng);
    if (!runs.empty()) attention.step(runs, rows);
    bool done = true;
    for (int32_t seq = 0; seq < static_cast<int32_t>(lengths.size()); ++seq) {
      const int32_t length = attention.length(seq);
      if (length < lengths[static_cast<std::size_t>(seq)]) {
        done = false;
        if (draw(0, 6) == 0) attention.roll_back(seq, std::max(0, length - draw(1, 6)));
      }
    }
    if (done) return;
  }
}

Config random_config(std::mt19937& rng, uint32_t seed) {
  const auto pick = [&](auto... options) {
    const int32_t all[] = {options...};
    return all[std::uniform_int_distribution<std::size_t>(0, sizeof...(options) - 1)(rng)];
  };
  Config config;
  config.seed = seed;
  config.dtype = pick(MORTISE_BF16, MORTISE_BF16, MORTISE_F32);
  const int cache = pick(0, 2);
  config.int8_cache = cache == 1;
  config.fp8_cache = cache == 2;
  config.num_kv_heads = pick(1, 2, 3);
  config.num_heads = config.num_kv_heads * pick(1, 3, 4, 8);
  config.head_dim = pick(8, 24, 48, 64, 80, 128);
  config.block_size = pick(16, 16, 32, 64, 128);
  config.num_threads = pick(1, 2, 3);
  config.num_layers = pick(1, 2);
  config.rotary_dim = pick(0, 8, config.head_dim, config.head_dim);
  config.interleaved = pick(0, 0, 1) != 0;
  config.qk_norm = pick(0, 1) != 0;
  if (pick(0, 1) != 0) {
    for (int32_t layer = 0; layer < config.num_layers; ++layer) config.windows.push_back(pick(0, 1, 20, 100, 256, 300));
  }
  return config;
}

TEST(Paged, RandomBatchesHaveTheBitsOfTheReference) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    const int32_t most = config.head_dim > 64 ? 270 : 400;
    std::vector<int32_t> lengths;
    for (int i = 0; i < 3; ++i) lengths.push_back(std::uniform_int_distribution<int32_t>(1, most)(rng));
    const std::vector<std::string> names = isas();
    config.isa = names[seed % names.size()];
    config.pairs = seed / names.size() % 2 == 1;
    Rows rows;
    run_random_schedule(config, lengths, rng, rows);
    for (int32_t seq = 0; seq < 3; ++seq) {
      expect_reference_rows(config, seq, lengths[static_cast<std::size_t>(seq)], rows);
    }
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
}

// One prefill alone on the portable path is the measure; any schedule on any instruction set and threads gives its
// rows.
TEST(Paged, EveryScheduleGivesTheRowsOfOnePrefill) {
  for (uint32_t seed = 100; seed < 104; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    const std::vector<int32_t> lengths = {700, 33, 256, 257};
    Rows whole;
    for (int32_t seq = 0; seq < 4; ++seq) {
      Attention alone(config);
      alone.step({{seq, lengths[static_cast<std::size_t>(seq)]}}, whole);
    }
    for (const std::string& isa : isas()) {
      config.isa = isa;
      for (config.num_threads = 1; config.num_threads <= 3; ++config.num_threads) {
        Rows rows;
        run_random_schedule(config, lengths, rng, rows);
        for (const auto& [key, row] : whole) {
          ASSERT_EQ(row, rows.at(key)) << "sequence " << key.seq << ", position " << key.position << ", layer "
                                       << key.layer << ", " << isa << ", " << config.num_threads << " threads, seed "
                                       << seed;
        }
      }
    }
  }
}

// A decode row with a long context is cut into pieces for the threads; one thread folds it whole.
TEST(Paged, ALongContextHasTheSameBitsOnAnyNumberOfThreads) {
  Config config;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 24;
  std::vector<Config> configs;
  for (const std::string& isa : isas()) {
    config.isa = isa;
    for (bool int8 : {false, true}) {
      config.int8_cache = int8;
      configs.push_back(config);
    }
  }
  for (Config& config : configs) {
    Rows expected;
    for (int32_t threads : {1, 2, 3, 8}) {
      config.num_threads = threads;
      Attention attention(config);
      Rows rows;
      attention.step({{0, 2100}}, rows);
      rows.clear();
      attention.step({{0, 1}}, rows);
      attention.step({{0, 5}}, rows);
      if (threads == 1) expected = rows;
      EXPECT_EQ(expected, rows) << config.isa << ", " << threads << " threads, int8 " << config.int8_cache;
    }
  }
}

TEST(Paged, MoreHeadsThanAUnitHoldsHaveTheBitsOfTheReference) {
  Config config;
  config.num_heads = 71;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  for (const std::string& isa : isas()) {
    config.isa = isa;
    Attention attention(config);
    Rows rows;
    attention.step({{0, 40}}, rows);
    expect_reference_rows(config, 0, 40, rows);
  }
}

bool is_nan(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return x != x; });
}

// Tokens whose V is NaN or infinite: in any schedule the rows that see one are NaN, and all others have the bits that
// they have when those tokens are finite.
TEST(Paged, AValueThatIsNotFiniteReachesTheRowsThatSeeItAlone) {
  std::size_t touched = 0, untouched = 0;
  for (uint32_t seed = 200; seed < 212; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    const std::vector<int32_t> lengths = {300, 50, 33};
    Rows finite;
    for (int32_t seq = 0; seq < 3; ++seq) {
      Attention alone(config);
      alone.step({{seq, lengths[static_cast<std::size_t>(seq)]}}, finite);
    }
    const std::vector<std::string> names = isas();
    config.isa = names[seed % names.size()];
    config.pairs = seed / names.size() % 2 == 1;
    config.broken = {{0, 16}, {0, 17 + static_cast<int32_t>(rng() % 200)}, {1, static_cast<int32_t>(rng() % 50)}};
    Rows rows;
    run_random_schedule(config, lengths, rng, rows);
    rows.erase(rows.begin(), rows.lower_bound({0, 0, 0}));  // padding
    for (int32_t seq = 0; seq < 3; ++seq) {
      expect_reference_rows(config, seq, lengths[static_cast<std::size_t>(seq)], rows);
    }
    for (const auto& [key, row] : rows) {
      const int32_t window = config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(key.layer)];
      const bool sees = std::any_of(config.broken.begin(), config.broken.end(), [&, key = key](const auto& token) {
        return token.first == key.seq && token.second <= key.position &&
               (window == 0 || token.second > key.position - window);
      });
      ++(sees ? touched : untouched);
      ASSERT_TRUE(sees ? is_nan(row) : row == finite.at(key))
          << "sequence " << key.seq << ", position " << key.position << ", layer " << key.layer << ", seed " << seed;
    }
  }
  EXPECT_GT(touched, 500u);
  EXPECT_GT(untouched, 500u);
}

// A sequence whose 17th token has a V of NaN ends, and the next gets its blocks; another had such tokens for drafts,
// which were rejected.
TEST(Paged, WhatAnEarlierSequenceLeftInABlockChangesNoBit) {
  for (const std::string& isa : isas()) {
    for (const int32_t dtype : {MORTISE_BF16, MORTISE_F32}) {
      for (const bool int8 : {false, true}) {
        Config config;
        config.isa = isa;
        config.dtype = dtype;
        config.int8_cache = int8;
        config.num_layers = 2;
        config.broken = {{0, 16}, {9, 17}, {9, 18}, {9, 19}};
        Attention attention(config);
        Rows first, second, drafts, third;
        attention.step({{0, 17}}, first);
        expect_reference_rows(config, 0, 17, first);
        EXPECT_TRUE(is_nan(first.at({0, 16, 0})));
        EXPECT_FALSE(is_nan(first.at({0, 15, 0})));
        attention.end(0);
        attention.step({{1, 16}}, second);
        for (int32_t i = 0; i < 3; ++i) attention.step({{1, 1}}, second);
        attention.step({{1, 25}}, second);
        expect_reference_rows(config, 1, 44, second);
        attention.step({{2, 17}}, third);
        attention.alias(2, 9);
        attention.step({{2, 3}}, drafts);
        EXPECT_TRUE(is_nan(drafts.at({9, 17, 0})));
        attention.roll_back(2, 17);
        attention.alias(2, 2);
        attention.step({{2, 1}}, third);
        attention.step({{2, 30}}, third);
        expect_reference_rows(config, 2, 48, third);
      }
    }
  }
}

TEST(Paged, PaddingRowsGiveZero) {
  Config configs[4];
  configs[1].dtype = configs[3].dtype = MORTISE_F32;
  configs[2].int8_cache = configs[3].int8_cache = true;
  for (const Config& config : configs) {
    Attention attention(config);
    Rows rows;
    attention.step({{0, 20}, {7, 0}, {1, 3}, {8, 0}}, rows);
    const std::vector<float> padding = rows.at({-1, 0, 0});
    EXPECT_TRUE(std::all_of(padding.begin(), padding.end(), [](float x) { return x == 0; }));
    rows.erase({-1, 0, 0});
    expect_reference_rows(config, 0, 20, rows);
    expect_reference_rows(config, 1, 3, rows);
  }
}

TEST(Paged, ACopiedSequenceGoesOnWithTheSameBits) {
  Config config;
  config.num_layers = 2;
  config.num_threads = 2;
  for (bool int8 : {false, true}) {
    config.int8_cache = int8;
    Attention attention(config);
    Rows rows;
    attention.step({{0, 300}}, rows);
    attention.fork(0, 5);
    rows.clear();
    // Both continue with the same tokens: sequence 5 draws the values of sequence 0.
    attention.step({{0, 4}}, rows);
    Rows forked;
    attention.alias(5, 0);
    attention.step({{5, 4}}, forked);
    EXPECT_EQ(rows, forked) << "int8 " << int8;
  }
}

}  // namespace
}  // namespace mortise::test
