// Cascade attention through its ABI: whatever is read for several sequences at once, each row has the bits of the
// reference, and those that paged gives it.
// Covers: plugins/attention/span_cpu/{attention,run,shared_prefix}
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "fixture.hpp"
#include "kernels/cpu/isa.hpp"

namespace mortise::test {
namespace {

using span_cpu::kCascade;
using span_cpu::kPaged;

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (cpu::Isa isa : cpu::available_isas()) names.push_back(cpu::isa_name(isa));
  return names;
}

// Sequences with their lengths; the prefixes are the config's.
using Lengths = std::map<int32_t, int32_t>;

// Random runs of all sequences until each has its length. A sequence begins when its prefix is there. Steps mix
// chunks, decodes, drafts of which some are rolled back, and padding.
// Returns how much of the cache was read.
uint64_t run_random_schedule(const Config& config, const Lengths& lengths, std::mt19937& rng, Rows& rows) {
  const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
  Attention attention(config);
  const std::function<bool(int32_t)> ready = [&](int32_t seq) {
    const auto found = config.prefixes.find(seq);
    if (found == config.prefixes.end()) return true;
    return ready(found->second.seq) && attention.length(found->second.seq) >= found->second.tokens;
  };
  // Up to here its tokens are another's too.
  const auto shared_until = [&](int32_t seq) {
    int32_t tokens = config.prefixes.contains(seq) ? config.prefixes.at(seq).tokens : 0;
    for (const auto& [child, prefix] : config.prefixes) {
      if (prefix.seq == seq) tokens = std::max(tokens, prefix.tokens);
    }
    return tokens;
  };
  for (bool done = false; !done;) {
    std::vector<Run> runs;
    for (const auto& [seq, length] : lengths) {
      if (!ready(seq) || draw(0, 4) == 0) continue;
      const int32_t left = length - attention.length(seq), most[] = {1, 1, 6, 40, 700};
      if (left > 0) runs.push_back({seq, std::min(left, draw(1, most[draw(0, 4)]))});
    }
    if (draw(0, 5) == 0) runs.push_back({1000, 0});  // padding
    std::shuffle(runs.begin(), runs.end(), rng);
    if (!runs.empty()) attention.step(runs, rows);
    done = std::all_of(lengths.begin(), lengths.end(), [&](const auto& item) {
      return ready(item.first) && attention.length(item.first) >= item.second;
    });
    for (const auto& [seq, length] : lengths) {
      if (done || !ready(seq) || attention.length(seq) == length || draw(0, 6) != 0) continue;
      const int32_t to = attention.length(seq) - draw(1, 6);
      if (to >= shared_until(seq)) attention.roll_back(seq, to);
    }
  }
  return attention.kv_bytes_read();
}

// Trees of prefixes of these lengths, and what each sequence has of its own; some share nothing.
Lengths draw_sequences(std::mt19937& rng, const std::vector<int32_t>& prefixes, int32_t own, Config& config) {
  const auto draw = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(rng); };
  Lengths lengths;
  int32_t next = 0;
  for (const int32_t tokens : prefixes) {
    const int32_t first = next++;
    lengths[first] = tokens + draw(1, own);
    for (int32_t member = draw(1, 4); member > 0; --member) {
      const int32_t seq = next++, nested = draw(0, 2);
      // With another member: as far as that one goes, and now and then beyond the common prefix.
      const int32_t from = nested == 0 && seq > first + 1 ? draw(first + 1, seq - 1) : first;
      config.prefixes[seq] = {from, from == first ? tokens : draw(tokens, lengths[from])};
      lengths[seq] = config.prefixes[seq].tokens + draw(1, own);
    }
  }
  lengths[next] = draw(1, own);
  return lengths;
}

Config random_config(std::mt19937& rng, uint32_t seed) {
  const auto pick = [&](auto... options) {
    const int32_t all[] = {options...};
    return all[std::uniform_int_distribution<std::size_t>(0, sizeof...(options) - 1)(rng)];
  };
  Config config;
  config.component = &kCascade;
  config.seed = seed;
  config.dtype = pick(MORTISE_BF16, MORTISE_BF16, MORTISE_F32);
  const int cache = pick(0, 2);
  config.int8_cache = cache == 1;
  config.fp8_cache = cache == 2;
  config.num_kv_heads = pick(1, 2, 3);
  config.num_heads = config.num_kv_heads * pick(1, 1, 3, 4, 8);
  config.head_dim = pick(8, 24, 64, 80);
  config.block_size = pick(16, 16, 32, 64, 128);
  config.num_blocks = 2048 / (config.block_size / 16);
  config.num_threads = pick(1, 2, 3);
  config.rotary_dim = pick(0, config.head_dim);
  if (pick(0, 1) != 0) {
    config.num_layers = 3;
    config.windows = {0, pick(1, 40, 300), pick(500, 700, 1200)};
  }
  return config;
}

TEST(Cascade, RandomTreesOfPrefixesHaveTheBitsOfTheReference) {
  uint64_t read[2] = {};
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    const std::vector<std::string> names = isas();
    config.isa = names[seed % names.size()];
    config.pairs = seed / names.size() % 2 == 1;
    const int32_t longest = config.head_dim > 24 ? 300 : 700;
    const Lengths lengths = draw_sequences(rng, {256, longest}, 60, config);
    Rows rows, paged;
    std::mt19937 same = rng;
    read[1] += run_random_schedule(config, lengths, rng, rows);
    for (const auto& [seq, length] : lengths) expect_reference_rows(config, seq, length, rows);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    config.component = &kPaged;
    read[0] += run_random_schedule(config, lengths, same, paged);
    ASSERT_EQ(rows, paged) << "seed " << seed;
  }
  // More would mean that hardly anything is shared. (Chunks and windows read as in paged.)
  EXPECT_LT(static_cast<double>(read[1]), 0.95 * static_cast<double>(read[0]));
}

// Tokens of shared prefixes, and of single members, whose V is NaN or infinite: what is read for several members at
// once makes NaN of those that see it alone.
TEST(Cascade, AValueThatIsNotFiniteReachesTheRowsThatSeeItAlone) {
  std::size_t touched = 0, untouched = 0;
  for (uint32_t seed = 300; seed < 305; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    if (config.head_dim > 24) config.head_dim = 24;
    config.rotary_dim = std::min(config.rotary_dim, config.head_dim);
    const std::vector<std::string> names = isas();
    config.isa = names[seed % names.size()];
    config.pairs = seed / names.size() % 2 == 1;
    const Lengths lengths = draw_sequences(rng, {600, 530}, 60, config);
    for (const auto& [seq, length] : lengths) {
      const bool begins = !config.prefixes.contains(seq);
      if (begins && seed % 4 == 0) continue;  // one in its prefix makes NaN of all members unless there is a window
      if (rng() % 2 == 0) config.broken.insert({seq, static_cast<int32_t>(rng() % static_cast<uint32_t>(length))});
    }
    Rows rows;
    run_random_schedule(config, lengths, rng, rows);
    for (const auto& [seq, length] : lengths) expect_reference_rows(config, seq, length, rows);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    for (const auto& [key, row] : rows) ++(row.front() != row.front() ? touched : untouched);
  }
  EXPECT_GT(touched, 500u);
  EXPECT_GT(untouched, 500u);
}

// One prefill of each sequence alone, on the portable path, without sharing a block: any schedule gives its rows.
TEST(Cascade, EveryScheduleGivesTheRowsThatPagedGivesEachAlone) {
  for (uint32_t seed = 100; seed < 104; ++seed) {
    std::mt19937 rng(seed);
    Config config = random_config(rng, seed);
    if (config.head_dim > 64) config.head_dim = 48;
    config.rotary_dim = config.head_dim;
    const Lengths lengths = draw_sequences(rng, {700, 1000 + 537 * static_cast<int32_t>(seed % 2)}, 40, config);
    Rows whole;
    Config alone = config;
    alone.component = &kPaged;
    alone.isa = isas().back();
    for (const auto& [seq, length] : lengths) {
      Attention attention(alone);
      // If a sequence begins with another's blocks, the other one runs first.
      std::vector<int32_t> chain = {seq};
      while (config.prefixes.contains(chain.back())) chain.push_back(config.prefixes[chain.back()].seq);
      for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
        const int32_t wanted = *at == seq ? length : config.prefixes[*(at + 1)].tokens;
        if (wanted > attention.length(*at)) attention.step({{*at, wanted - attention.length(*at)}}, whole);
      }
    }
    for (const std::string& isa : isas()) {
      config.isa = isa;
      for (config.num_threads = 1; config.num_threads <= 3; config.num_threads += 2) {
        Rows rows;
        run_random_schedule(config, lengths, rng, rows);
        for (const auto& [key, row] : rows) {
          if (key.seq < 0) continue;
          ASSERT_EQ(row, whole.at(key)) << "sequence " << key.seq << ", position " << key.position << ", layer "
                                        << key.layer << ", " << isa << ", " << config.num_threads << " threads, seed "
                                        << seed;
        }
      }
    }
  }
}

// Members decode after a long prefix, which many threads divide and one thread folds.
TEST(Cascade, ALongPrefixHasTheSameBitsOnAnyNumberOfThreads) {
  Config config;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 24;
  config.num_blocks = 512;
  for (int32_t seq = 1; seq < 9; ++seq) config.prefixes[seq] = {0, seq < 6 ? 2100 : 2700};
  std::vector<test::Run> runs;
  for (int32_t seq = 0; seq < 9; ++seq) runs.push_back({seq, 1 + seq % 3});
  for (const std::string& isa : isas()) {
    config.isa = isa;
    for (const bool int8 : {false, true}) {
      config.int8_cache = int8;
      Rows expected;
      uint64_t alone = 0;
      for (const int32_t threads : {0, 1, 2, 3, 8}) {  // 0: paged
        config.component = threads == 0 ? &kPaged : &kCascade;
        config.num_threads = std::max(threads, 1);
        Attention attention(config);
        Rows rows;
        attention.step({{0, 2800}}, rows);
        rows.clear();
        const uint64_t before = attention.kv_bytes_read();
        attention.step(runs, rows);
        if (threads == 0) {
          expected = rows;
          alone = attention.kv_bytes_read() - before;
        } else {
          EXPECT_LT(attention.kv_bytes_read() - before, alone / 2);
        }
        EXPECT_EQ(expected, rows) << isa << ", " << threads << " threads, int8 " << int8;
      }
    }
  }
}

TEST(Cascade, MoreHeadsThanAUnitHoldsHaveTheBitsOfPaged) {
  Config config;
  config.num_heads = 71;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  for (int32_t seq = 1; seq < 6; ++seq) config.prefixes[seq] = {0, 600};
  std::vector<test::Run> runs;
  for (int32_t seq = 0; seq < 6; ++seq) runs.push_back({seq, 2});
  for (const std::string& isa : isas()) {
    config.isa = isa;
    Rows rows[2];
    for (const bool cascade : {false, true}) {
      config.component = cascade ? &kCascade : &kPaged;
      Attention attention(config);
      attention.step({{0, 620}}, rows[cascade]);
      attention.step(runs, rows[cascade]);
    }
    EXPECT_EQ(rows[0], rows[1]) << isa;
  }
}

}  // namespace
}  // namespace mortise::test
