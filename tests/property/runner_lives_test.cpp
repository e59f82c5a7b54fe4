// The runner against itself: whatever was accepted, rejected, forgotten, shared or cut into passes before, the logits
// of a step are bit for bit those of a runner that computes the sequence from its first token on. On the CPU, and on
// the device whose memory the host cannot touch (remote/README.md).
// Covers: runtime/runner/{runner,runner_sequence,runner_service}
#include <bit>
#include <map>
#include <random>

#include "runner_fixture.hpp"

namespace mortise::test {
namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>, std::bit_cast<std::uint32_t, float>);
}

// A sequence of the target: it comes, gets drafts, of which some are accepted, and ends.
struct Life {
  std::vector<std::int32_t> tokens;  // committed
  std::int32_t told = 0;             // how many of them the runner knows
};

void live(Rig& rig, Rig& fresh, std::mt19937& random, int rounds) {
  std::map<std::uint64_t, Life> lives;
  std::uint64_t next_id = 1;
  std::vector<std::int32_t> shared;
  int compared = 0;
  for (int round = 0; round < rounds; ++round) {
    if (lives.size() < 6 || random() % 8 == 0) {  // a new one, often with a prefix that was there before
      Life life;
      if (random() % 2 == 0) life.tokens = shared;
      for (std::size_t n = 1 + random() % (random() % 4 == 0 ? 300 : 40); n > 0; --n) {
        life.tokens.push_back(static_cast<std::int32_t>(random() % 4096));
      }
      if (random() % 4 == 0) shared.assign(life.tokens.begin(), life.tokens.end());
      lives[next_id++] = std::move(life);
    }
    std::vector<std::uint64_t> ids;
    for (auto& [id, life] : lives) {
      const std::vector<std::int32_t> news(life.tokens.begin() + life.told, life.tokens.end());
      if (!news.empty()) {
        ASSERT_EQ(rig.update(id, life.told, news), MORTISE_OK) << rig.error();
      }
      life.told = static_cast<std::int32_t>(life.tokens.size());
      if (random() % 4 != 0 && ids.size() < 8) ids.push_back(id);
    }
    std::ranges::shuffle(ids, random);
    std::map<std::uint64_t, std::vector<std::int32_t>> drafts;
    for (std::size_t left = 1 + random() % 8; left > 0 && !ids.empty(); --left) {
      const std::vector<std::int32_t> sampled = rig.step(ids, 0.7f);
      ASSERT_EQ(rig.status(), MORTISE_OK) << rig.error();
      std::vector<std::uint64_t> going_on;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (sampled[i] < 0) continue;
        if (random() % 5 == 0) {
          std::vector<std::int32_t> all = lives[ids[i]].tokens;
          all.insert(all.end(), drafts[ids[i]].begin(), drafts[ids[i]].end());
          fresh.update(ids[i], 0, all);
          EXPECT_EQ(fresh.step({ids[i]}, 0.7f).front(), sampled[i]);
          EXPECT_TRUE(same_bits(rig.logits(i), fresh.logits(0))) << "round " << round << ", sequence " << ids[i];
          fresh.end(ids[i]);
          ++compared;
        }
        drafts[ids[i]].push_back(sampled[i]);
        if (random() % 6 != 0) going_on.push_back(ids[i]);
      }
      ids = going_on;
    }
    for (auto at = lives.begin(); at != lives.end();) {
      auto& [id, life] = *at;
      const std::vector<std::int32_t>& own = drafts[id];
      const std::size_t accepted = own.empty() ? 0 : random() % 3 != 0 ? own.size() : random() % own.size();
      life.tokens.insert(life.tokens.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(accepted));
      life.tokens.push_back(static_cast<std::int32_t>(random() % 4096));  // recovered, or the bonus token
      const bool over = random() % 12 == 0 || life.tokens.size() > 600;
      if (over) rig.end(id);
      at = over ? lives.erase(at) : std::next(at);
    }
  }
  for (const auto& [id, life] : lives) rig.end(id);
  EXPECT_GT(compared, rounds / 4);
  const RunnerStats stats = rig.stats();
  EXPECT_EQ(stats.num_sequences, 0u);
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, stats.num_blocks);  // less: a block is lost
}

class RunnerLives : public RunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RunnerLives, LogitsAreThoseOfComputingEverythingAnew) {
  std::uint64_t forgotten = 0, replays = 0;
  for (std::uint32_t mix = 0; mix < 10; ++mix) {
    std::mt19937 random(900 + mix);
    const RandomModel& model = models_[mix % models_.size()];
    RigOptions options;
    options.device = GetParam();
    options.block_size = mix % 2 == 0 ? 16 : 32;
    constexpr int kBudgets[] = {2048, 17, 64};
    options.max_batched_tokens = kBudgets[mix % 3];
    options.max_num_seqs = mix % 4 == 3 ? 3 : 8;
    options.prefix_cache = mix % 5 != 4;
    options.target_blocks = mix % 2 == 0 ? 4096 : 40;  // 640 tokens, for up to 6 sequences of up to 300 and more
    Rig rig(model.folder, options);
    Rig fresh(model.folder, {});
    ASSERT_NO_FATAL_FAILURE(live(rig, fresh, random, 60)) << "mix " << mix;
    forgotten += rig.stats().num_forgotten;
    replays += rig.stats().num_graph_replays;
  }
  EXPECT_GT(forgotten, 0u) << "no pool was short";
  EXPECT_EQ(replays > 0, std::string(GetParam()) == "remote");
}

INSTANTIATE_TEST_SUITE_P(Devices, RunnerLives, ::testing::Values("cpu", "remote"));

// Branches of a draft: each fork has the logits of its own tokens, its origin keeps its own, and both may be gone on
// with.
TEST_P(RunnerLives, ForksAreSequencesOfTheirOwn) {
  for (const int target_blocks : {4096, 6}) {  // 6: without room a fork is computed anew, or not at all
    std::mt19937 random(17);
    RigOptions options;
    options.device = GetParam();
    options.target_blocks = target_blocks;
    Rig rig(models_[2].folder, options), fresh(models_[2].folder, {});
    int compared = 0;
    for (std::uint64_t id = 1; id <= 40; ++id) {
      std::map<std::uint64_t, std::vector<std::int32_t>> tokens = {{id, draw(random, 1 + random() % 50)}};
      ASSERT_EQ(rig.update(id, 0, tokens[id]), MORTISE_OK);
      const std::vector<std::int32_t> choices = rig.step({id}, 0.7f, 3);
      ASSERT_TRUE(choices[0] >= 0 && choices[1] >= 0 && choices[2] >= 0);
      EXPECT_TRUE(choices[0] != choices[1] && choices[0] != choices[2] && choices[1] != choices[2]);
      std::vector<std::uint64_t> ids = {id};
      for (std::size_t i = 1; i < 3; ++i) {
        ids.push_back(kFork + 1000 * i + id);
        tokens[ids.back()] = tokens[id];
        tokens[ids.back()].push_back(choices[i]);
        ASSERT_EQ(rig.fork(id, ids.back(), choices[i]), MORTISE_OK) << rig.error();
      }
      tokens[id].push_back(choices[0]);
      for (int depth = 0; depth < 3; ++depth) {
        const std::vector<std::int32_t> sampled = rig.step(ids, 0.7f);
        ASSERT_EQ(rig.status(), MORTISE_OK) << rig.error();
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (sampled[i] < 0) continue;
          fresh.update(id, 0, tokens[ids[i]]);
          EXPECT_EQ(fresh.step({id}, 0.7f).front(), sampled[i]);
          EXPECT_TRUE(same_bits(rig.logits(i), fresh.logits(0))) << "sequence " << id << ", branch " << i;
          fresh.end(id);
          tokens[ids[i]].push_back(sampled[i]);
          ++compared;
        }
      }
      for (std::size_t i = 1; i < 3; ++i) rig.end(ids[i]);
      if (random() % 2 == 0) rig.end(id);
    }
    for (std::uint64_t id = 1; id <= 40; ++id) rig.end(id);
    EXPECT_GT(compared, target_blocks == 6 ? 100 : 359);
    EXPECT_EQ(rig.stats().num_sequences, 0u);
    EXPECT_EQ(rig.stats().num_free_blocks + rig.stats().num_cached_free_blocks, rig.stats().num_blocks);
  }
}

}  // namespace
}  // namespace mortise::test
