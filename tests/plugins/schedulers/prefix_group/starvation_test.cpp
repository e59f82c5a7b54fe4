// The bound of the README: a request that finds A older ones of its priority waiting, of R rows, is passed by younger
// ones of at most R + (4 A + 1) G rows, G = 16 steps of max_batched_tokens.
// Covers: plugins/schedulers/prefix_group/{admission,backlog}
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "mortise/plugin.hpp"
#include "simulated_engine.hpp"

namespace mortise::test {
namespace {

const mortise_component& scheduler_under_test() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}

// Remembers what was there when each request came, and adds up who passed it.
class Watch {
 public:
  Watch(SimulatedEngine& engine, int64_t token_budget) : engine_(engine), rows_per_turn_(16 * token_budget) {}

  void submitted(uint64_t id, const SimulatedRequest& request) {
    Entry entry{request.priority, static_cast<int64_t>(request.prompt.size()), request.generated, 0, 0, 0};
    for (const auto& [other, waiting] : waiting_) {
      if (waiting.priority != request.priority) continue;
      ++entry.num_older;
      entry.older_rows += waiting.prompt + waiting.generated;
    }
    waiting_[id] = entry;
  }

  // Call after each step. Returns false if a sequence has waited for longer than is promised.
  bool holds() {
    for (; num_seen_ < engine_.starts().size(); ++num_seen_) {
      const SimulatedEngine::Start& start = engine_.starts()[num_seen_];
      const Entry admitted = waiting_.at(start.id);
      waiting_.erase(start.id);
      for (auto& [id, entry] : waiting_) {
        if (id >= start.id || entry.priority != admitted.priority) continue;
        entry.passed += admitted.prompt - start.num_cached + admitted.generated;
        most_passed_ = std::max(most_passed_, entry.passed);
        if (entry.passed > entry.older_rows + (4 * entry.num_older + 1) * rows_per_turn_) return false;
      }
    }
    return true;
  }
  int64_t most_passed() const { return most_passed_; }
  bool waits(uint64_t id) const { return waiting_.contains(id); }

 private:
  struct Entry {
    int32_t priority;
    int64_t prompt, generated, num_older, older_rows, passed;
  };
  SimulatedEngine& engine_;
  const int64_t rows_per_turn_;
  std::map<uint64_t, Entry> waiting_;
  std::size_t num_seen_ = 0;
  int64_t most_passed_ = 0;
};

// A request without a prefix comes when a group of which there is no end has begun: it waits for a turn, no longer.
TEST(Starvation, AGroupThatNeverEndsGivesWay) {
  constexpr int32_t kBudget = 32;
  SimulatedEngine engine(scheduler_under_test(),
                         {.num_blocks = 256, .token_budget = kBudget, .seq_budget = 4, .holds_back = true}, 1);
  const std::vector<int32_t> prefix = engine.draw_tokens(320);
  Watch watch(engine, kBudget);
  const auto submit = [&](SimulatedRequest request) {
    const uint64_t id = engine.submit(request);
    watch.submitted(id, request);
    return id;
  };
  const auto submit_member = [&] {
    SimulatedRequest request{prefix, 4};
    const std::vector<int32_t> own = engine.draw_tokens(12);
    request.prompt.insert(request.prompt.end(), own.begin(), own.end());
    submit(std::move(request));
  };
  for (int i = 0; i < 6; ++i) submit_member();
  for (int i = 0; i < 12; ++i) engine.step();
  ASSERT_TRUE(watch.holds());
  const uint64_t alone = submit({engine.draw_tokens(40), 4});
  int steps = 0;
  for (; watch.waits(alone) && steps < 2000; ++steps) {
    while (engine.num_live() < 12) submit_member();
    engine.step();
    ASSERT_TRUE(watch.holds()) << "step " << steps;
  }
  EXPECT_FALSE(watch.waits(alone)) << "starved";
  EXPECT_GT(watch.most_passed(), 4 * 16);  // members did pass it: without that nothing was tested
}

struct Mix {
  const char* name;
  SimulationOptions options;
  int lull;  // steps between arrivals, on average
};

class StarvationProperty : public ::testing::TestWithParam<Mix> {};
INSTANTIATE_TEST_SUITE_P(
    Mixes, StarvationProperty,
    ::testing::Values(
        Mix{"Groups", {.num_blocks = 64, .token_budget = 16, .seq_budget = 4, .num_prefixes = 4}, 6},
        Mix{"GroupsInFlight",
            {.num_blocks = 64, .token_budget = 16, .seq_budget = 4, .num_prefixes = 4, .holds_back = true},
            6},
        Mix{"Nested",
            {.num_blocks = 64,
             .token_budget = 8,
             .seq_budget = 4,
             .num_prefixes = 12,
             .nested = true,
             .holds_back = true},
            8},
        Mix{"Hints", {.num_blocks = 64, .token_budget = 8, .seq_budget = 3, .num_prefixes = 3, .num_groups = 3}, 8},
        Mix{"Priorities",
            {.num_blocks = 64, .token_budget = 16, .seq_budget = 4, .num_priorities = 2, .num_prefixes = 4},
            6},
        Mix{"None", {.num_blocks = 64, .token_budget = 16, .seq_budget = 4}, 6}),
    [](const auto& info) { return info.param.name; });

TEST_P(StarvationProperty, NobodyIsPassedByMoreThanTheBound) {
  const SimulationOptions& options = GetParam().options;
  int64_t most = 0;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SimulatedEngine engine(scheduler_under_test(), options, seed);
    Watch watch(engine, options.token_budget);
    std::mt19937_64 random(seed + 100);
    while (engine.num_steps() < 4000) {
      uint64_t arriving = random() % static_cast<uint64_t>(GetParam().lull) == 0;
      if (random() % 300 == 0) arriving = 30;
      if (engine.num_live() > 60) arriving = 0;
      for (; arriving > 0; --arriving) {
        const SimulatedRequest request = engine.draw_request();
        watch.submitted(engine.submit(request), request);
      }
      engine.step();
      ASSERT_TRUE(watch.holds()) << "seed " << seed << ", step " << engine.num_steps();
    }
    most = std::max(most, watch.most_passed());
  }
  RecordProperty("most_passed", std::to_string(most));
  if (options.num_prefixes > 0) {
    EXPECT_GT(most, 0);
  }
}

}  // namespace
}  // namespace mortise::test
