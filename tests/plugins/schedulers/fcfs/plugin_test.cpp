// Covers: plugins/schedulers/common/{options,planner} plugins/schedulers/fcfs/order
#include <gmock/gmock.h>

#include "mortise/plugin.hpp"
#include "random_arrivals.hpp"
#include "schedulers/fcfs/order.hpp"

namespace mortise::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

const mortise_component& fcfs() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}

// A view that a test writes down, and the plan for it: pairs of sequence and new tokens.
struct Scene {
  int32_t token_budget = 64, seq_budget = 8, num_free_blocks = 100;
  struct Row {
    int32_t state, num_tokens, num_computed, held;
    int32_t lookahead = 0, priority = 0, num_cached = 0, cached_free = 0;
    int32_t cached_free_with = -1, cached_free_shared = 0;  // -1: itself
  };
  std::vector<Row> rows;

  std::vector<std::pair<int32_t, int32_t>> scheduled;
  std::vector<int32_t> preempted;
  std::vector<int32_t> drafts;  // granted, by sequence
  bool whole_drafts = false;

  void plan(scheduling::Limits limits = {100, 1000}) {
    const std::size_t n = rows.size();
    std::vector<int32_t> states, tokens, computed, cached, cached_free, with, shared, held, lookahead, priorities;
    std::vector<uint64_t> ids;
    for (const Row& row : rows) {
      states.push_back(row.state);
      tokens.push_back(row.num_tokens);
      computed.push_back(row.num_computed);
      cached.push_back(row.num_cached);
      cached_free.push_back(row.cached_free);
      const bool first = row.cached_free_with < 0;
      with.push_back(first ? static_cast<int32_t>(with.size()) : row.cached_free_with);
      shared.push_back(first ? 0 : row.cached_free_shared);
      held.push_back(row.held);
      lookahead.push_back(row.lookahead);
      priorities.push_back(row.priority);
      ids.push_back(ids.size());
    }
    auto view = sized<mortise_schedule_view>();
    view.num_seqs = static_cast<int32_t>(n);
    if (whole_drafts) view.flags = MORTISE_VIEW_WHOLE_DRAFTS;
    view.block_size = 16;
    view.token_budget = token_budget;
    view.seq_budget = seq_budget;
    view.num_free_blocks = num_free_blocks;
    view.num_blocks = 100;
    view.seq_ids = view.arrivals = ids.data();
    view.states = states.data();
    view.num_tokens = tokens.data();
    view.num_computed = computed.data();
    view.num_cached = cached.data();
    view.num_cached_free_blocks = cached_free.data();
    view.cached_free_with = with.data();
    view.cached_free_shared = shared.data();
    view.blocks_held = view.blocks_freed_if_preempted = held.data();
    view.host_data = held.data();
    view.blocks_freed = [](const void* blocks_held, const int32_t* seqs, int32_t num_seqs) {  // they share none
      int32_t freed = 0;
      for (int32_t k = 0; k < num_seqs; ++k) freed += static_cast<const int32_t*>(blocks_held)[seqs[k]];
      return freed;
    };
    view.lookahead = lookahead.data();
    view.priorities = priorities.data();

    std::vector<int32_t> seqs(n), new_tokens(n), victims(n);
    auto out = sized<mortise_schedule_plan>();
    out.seqs = seqs.data();
    out.num_new_tokens = new_tokens.data();
    out.preempted = victims.data();
    drafts = lookahead;
    out.max_drafts = drafts.data();
    scheduling::Planner planner(view, limits, fcfs::order_by_arrival(view));
    planner.plan();
    planner.write(out);
    for (int32_t k = 0; k < out.num_scheduled; ++k) scheduled.emplace_back(seqs[k], new_tokens[k]);
    preempted.assign(victims.begin(), victims.begin() + out.num_preempted);
  }
};

constexpr int32_t kWaiting = MORTISE_SEQ_WAITING;
constexpr int32_t kRunning = MORTISE_SEQ_RUNNING;

TEST(Fcfs, PromptsAreCutToWhatIsLeftOfTheTokenBudget) {
  Scene scene;
  scene.rows = {{kWaiting, 40, 0, 0}, {kWaiting, 50, 0, 0}, {kWaiting, 5, 0, 0}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 40), Pair(1, 24)));  // a third: the budget of 64 is exceeded
}

TEST(Fcfs, TheSmallerOfOptionsAndBudgetsHolds) {
  Scene scene;
  scene.rows = {{kWaiting, 40, 0, 0}, {kWaiting, 50, 0, 0}};
  scene.plan({/*max_num_seqs=*/1, /*max_batched_tokens=*/30});
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 30)));
}

TEST(Fcfs, DecodesComeBeforeARunningPromptThatArrivedEarlier) {
  Scene scene;
  scene.token_budget = 10;
  scene.rows = {{kRunning, 100, 20, 2}, {kRunning, 30, 29, 2}, {kRunning, 40, 39, 3}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 8), Pair(1, 1), Pair(2, 1)));
}

TEST(Fcfs, LowerPriorityNumbersComeFirstThenArrival) {
  Scene scene;
  scene.seq_budget = 2;
  scene.rows = {{kWaiting, 4, 0, 0, 0, 5}, {kWaiting, 4, 0, 0, 0, 1}, {kWaiting, 4, 0, 0, 0, 1}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(1, 4), Pair(2, 4)));
}

TEST(Fcfs, DraftsGetTheRowsThatAreLeftWhenEveryDecodeHasItsToken) {
  Scene scene;
  scene.token_budget = 8;
  scene.rows = {{kRunning, 17, 16, 2, 4}, {kRunning, 33, 32, 3, 4}, {kRunning, 33, 32, 3, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(scene.drafts, ElementsAre(4, 1, 0));
}

TEST(Fcfs, DraftsEndWhereTheBlocksDoAndPreemptNobody) {
  Scene scene;
  scene.num_free_blocks = 0;
  scene.rows = {{kRunning, 30, 29, 2, 4}, {kRunning, 32, 31, 2, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_THAT(scene.drafts, ElementsAre(2, 0));  // slots 30 and 31 are the last of two blocks
  EXPECT_THAT(scene.preempted, IsEmpty());
}

TEST(Fcfs, DraftsGiveUpTheirBlocksBeforeAnybodyIsPreempted) {
  Scene scene;
  scene.num_free_blocks = 1;
  scene.rows = {{kRunning, 32, 31, 2, 4}, {kRunning, 60, 32, 2}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 16)));  // the block goes to the prompt
  EXPECT_THAT(scene.drafts, ElementsAre(0, 0));
  EXPECT_THAT(scene.preempted, IsEmpty());
}

TEST(Fcfs, APromptThatEndsGetsDraftsOfWhatIsLeft) {
  Scene scene;
  scene.token_budget = 22;
  scene.rows = {{kWaiting, 20, 0, 0, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 20)));
  EXPECT_THAT(scene.drafts, ElementsAre(2));
}

TEST(Fcfs, WholeDraftsAreRowsOfTheBudgetAndNeedSlots) {
  Scene scene;
  scene.whole_drafts = true;
  scene.token_budget = 8;
  scene.rows = {{kRunning, 17, 16, 1, 4}, {kRunning, 33, 32, 2, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1)));  // 1 + 4 rows; the second has 3 left
}

TEST(Fcfs, APromptThatWouldEndWithoutRoomForItsWholeDraftsStopsOneTokenShort) {
  Scene scene;
  scene.whole_drafts = true;
  scene.token_budget = 21;
  scene.rows = {{kWaiting, 20, 0, 0, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 19)));
}

TEST(Fcfs, ASequenceWithoutABlockTakesThoseOfTheLastInTheOrder) {
  Scene scene;
  scene.num_free_blocks = 0;
  scene.rows = {{kRunning, 33, 32, 2}, {kRunning, 20, 19, 2}, {kRunning, 30, 29, 2}};
  scene.plan();
  EXPECT_THAT(scene.preempted, ElementsAre(2));
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1)));
}

TEST(Fcfs, TheVictimIsTheLeastImportantEvenIfItHadItsPlaceInTheStep) {
  Scene scene;
  scene.num_free_blocks = 1;
  scene.rows = {{kRunning, 33, 32, 2, 0, 9}, {kRunning, 65, 32, 2, 0, 0}, {kRunning, 49, 48, 3, 0, 0}};
  scene.plan();  // 2 decodes first and takes the free block; then 1 lacks one, and 0, not served, is the last
  EXPECT_THAT(scene.preempted, ElementsAre(0));
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(1, 32), Pair(2, 1)));
}

TEST(Fcfs, TheLastInTheOrderWaitsRatherThanGivingUpItsBlocksForItself) {
  Scene scene;
  scene.num_free_blocks = 0;
  scene.rows = {{kRunning, 20, 19, 2}, {kRunning, 33, 32, 2}};
  scene.plan();
  EXPECT_THAT(scene.preempted, IsEmpty());
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1)));
}

TEST(Fcfs, ARunningPromptTakesTheBlocksThereAreBeforeItPreempts) {
  Scene scene;
  scene.num_free_blocks = 1;
  scene.rows = {{kRunning, 96, 32, 2}, {kRunning, 20, 19, 2}};
  scene.plan();
  EXPECT_THAT(scene.preempted, IsEmpty());
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 16), Pair(1, 1)));
}

TEST(Fcfs, AdmissionLeavesABlockToEachThatRuns) {
  Scene scene;
  scene.rows = {{kRunning, 20, 19, 2}, {kRunning, 20, 19, 2}, {kWaiting, 32, 0, 0}};
  scene.num_free_blocks = 3;
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1)));
  Scene roomier = scene;
  roomier.scheduled.clear();
  roomier.num_free_blocks = 4;
  roomier.plan();
  EXPECT_THAT(roomier.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1), Pair(2, 32)));
}

TEST(Fcfs, AdmissionWaitsForTheWholePromptAndForWhatRunningPromptsStillNeed) {
  Scene scene;
  scene.token_budget = 20;
  scene.num_free_blocks = 12;  // 1 for this step's 16 tokens of the first, 8 for its rest and next, 3 left
  scene.rows = {{kRunning, 160, 16, 1}, {kWaiting, 49, 0, 0}};
  scene.token_budget = 16;
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 16)));
}

TEST(Fcfs, WhoDoesNotFitHoldsBackAllAfterIt) {
  Scene scene;
  scene.num_free_blocks = 5;
  scene.rows = {{kRunning, 20, 19, 2}, {kWaiting, 90, 0, 0}, {kWaiting, 4, 0, 0}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1)));
}

TEST(Fcfs, AloneItIsAdmittedWithWhateverIsFree) {
  Scene scene;
  scene.num_free_blocks = 2;
  scene.rows = {{kWaiting, 90, 0, 0}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 32)));
}

TEST(Fcfs, CachedTokensAreNotRunAndTheirCachedFreeBlocksCountAsTaken) {
  Scene scene;
  scene.rows = {{kRunning, 20, 19, 2}, {kWaiting, 50, 0, 0, 0, 0, /*num_cached=*/48, /*cached_free=*/3}};
  scene.num_free_blocks = 4;
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1)));
  scene.scheduled.clear();
  scene.num_free_blocks = 5;  // 3 cached, 1 new, 1 for the running one
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 2)));
}

TEST(Fcfs, CachedFreeBlocksThatSeveralStartWithAreTakenOnce) {
  Scene scene;
  // 3 whole blocks each, all of them or 2 as the first one's, and one to be computed.
  scene.rows = {{kWaiting, 50, 0, 0, 0, 0, 48, 3},
                {kWaiting, 50, 0, 0, 0, 0, 48, 3, 0, 3},
                {kWaiting, 50, 0, 0, 0, 0, 48, 3, 0, 2}};
  const auto starts_with = [&](int32_t num_free_blocks) {
    scene.scheduled.clear();
    scene.num_free_blocks = num_free_blocks;
    scene.plan();
    return scene.scheduled.size();
  };
  // Each leaves one block to each sequence that was admitted before it.
  EXPECT_EQ(starts_with(4), 1u);
  EXPECT_EQ(starts_with(5), 1u);
  EXPECT_EQ(starts_with(6), 2u);
  EXPECT_EQ(starts_with(8), 2u);
  EXPECT_EQ(starts_with(9), 3u);  // 3 + 1, 0 + 1, 1 + 1, and 2 kept
}

TEST(Fcfs, AWaitingSequenceTakesPlaceAndBlocksOfThoseOfWorsePriority) {
  Scene scene;
  scene.seq_budget = 2;
  scene.num_free_blocks = 0;
  scene.rows = {{kRunning, 20, 19, 2, 0, 5}, {kRunning, 70, 32, 5, 0, 9}, {kWaiting, 60, 0, 0, 0, 1}};
  scene.plan();
  EXPECT_THAT(scene.preempted, ElementsAre(1));  // also 0: more was taken than needed
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(2, 60), Pair(0, 1)));
}

TEST(Fcfs, NobodyIsPreemptedForOneThatWouldNotFitAnyway) {
  Scene scene;
  scene.num_free_blocks = 1;
  scene.rows = {{kRunning, 20, 19, 2, 0, 0}, {kRunning, 20, 19, 2, 0, 9}, {kWaiting, 90, 0, 0, 0, 1}};
  scene.plan();
  EXPECT_THAT(scene.preempted, IsEmpty());
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(0, 1), Pair(1, 1)));
}

TEST(Fcfs, AnUrgentPromptComesBeforeARunningPromptOfWorsePriority) {
  Scene scene;
  scene.token_budget = 20;
  scene.rows = {{kRunning, 100, 20, 2, 0, 3}, {kWaiting, 15, 0, 0, 0, 2}, {kRunning, 9, 8, 1, 0, 4}};
  scene.plan();
  EXPECT_THAT(scene.scheduled, ElementsAre(Pair(1, 15), Pair(0, 4), Pair(2, 1)));
}

TEST(Fcfs, AnEmptyViewGivesAnEmptyPlan) {
  Scene scene;
  scene.plan();
  EXPECT_THAT(scene.scheduled, IsEmpty());
  EXPECT_THAT(scene.preempted, IsEmpty());
}

class FcfsProperty : public ::testing::TestWithParam<Mix> {};
INSTANTIATE_TEST_SUITE_P(
    Mixes, FcfsProperty,
    ::testing::Values(
        Mix{"Plain", {}}, Mix{"TinyPool", {.num_blocks = 5, .block_size = 4, .token_budget = 7, .seq_budget = 3}},
        Mix{"Drafts", {.num_blocks = 24, .token_budget = 32, .max_lookahead = 5}},
        Mix{"WholeDrafts", {.num_blocks = 24, .token_budget = 32, .max_lookahead = 5, .whole_drafts = true}},
        Mix{"Priorities", {.num_blocks = 20, .num_priorities = 3}},
        Mix{"Prefixes", {.num_blocks = 32, .num_prefixes = 5}},
        Mix{"NestedPrefixesInFlight", {.num_blocks = 32, .num_prefixes = 5, .nested = true, .holds_back = true}},
        Mix{"OneSequence", {.seq_budget = 1}},
        Mix{"BlocksOfOneToken", {.num_blocks = 200, .block_size = 1, .token_budget = 16}},
        Mix{"All",
            {.num_blocks = 18,
             .block_size = 8,
             .token_budget = 20,
             .seq_budget = 6,
             .max_lookahead = 3,
             .num_priorities = 2,
             .num_prefixes = 3}}),
    [](const auto& info) { return info.param.name; });

// 10,000 steps under random arrivals, in bursts and lulls; the simulated engine throws at any breach.
TEST_P(FcfsProperty, EveryRequestFinishesAndNoBoundIsBroken) {
  SimulatedEngine engine(fcfs(), GetParam().options, /*seed=*/7, /*first_come=*/true);
  std::mt19937_64 random(11);
  int64_t submitted = 0;
  while (engine.num_steps() < 10000) {
    submitted += submit_arrivals(engine, random);
    ASSERT_NO_THROW(engine.step()) << "step " << engine.num_steps();
  }
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(engine));
  EXPECT_EQ(engine.num_finished(), submitted);
  EXPECT_TRUE(engine.holds_nothing());
  RecordProperty("preemptions", std::to_string(engine.num_preemptions()));
  RecordProperty("finished", std::to_string(engine.num_finished()));
}

TEST(Fcfs, AFullPoolOfLongSequencesThrashesLittle) {
  SimulationOptions options;
  options.num_blocks = 40;
  options.seq_budget = 16;
  SimulatedEngine engine(fcfs(), options, 1);
  int64_t useful_rows = 0;
  for (int i = 0; i < 40; ++i, useful_rows += 32 + 200 - 1) engine.submit(/*prompt=*/32, /*generated=*/200);
  while (!engine.idle()) engine.step();
  EXPECT_EQ(engine.num_finished(), 40);
  // Twice the rows: admission and preemption work against each other.
  EXPECT_LT(engine.num_rows(), useful_rows * 2);
}

}  // namespace
}  // namespace mortise::test
