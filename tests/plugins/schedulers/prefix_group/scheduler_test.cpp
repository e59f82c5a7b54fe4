// Covers: plugins/schedulers/prefix_group/{admission,backlog,pins,plugin}
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "loader/option_reader.hpp"
#include "mortise/plugin.hpp"
#include "random_arrivals.hpp"
#include "schedulers/prefix_group/backlog.hpp"

namespace mortise::test {
namespace {

using ::testing::ElementsAre;

const mortise_component& prefix_group() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}

// Requests of `num_groups` groups of `members`, each of `shared` + `own` tokens; shuffled.
std::vector<SimulatedRequest> draw_groups(SimulatedEngine& engine, int num_groups, int members, int32_t shared,
                                          int32_t own, int32_t generated) {
  std::vector<SimulatedRequest> requests;
  for (int group = 0; group < num_groups; ++group) {
    const std::vector<int32_t> prefix = engine.draw_tokens(shared);
    for (int i = 0; i < members; ++i) {
      SimulatedRequest request{prefix, generated};
      const std::vector<int32_t> tokens = engine.draw_tokens(own);
      request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
      requests.push_back(std::move(request));
    }
  }
  std::shuffle(requests.begin(), requests.end(), std::mt19937(5));
  return requests;
}

struct Report {
  int64_t steps, prompt_rows;
  std::vector<uint64_t> order;  // ids as they were admitted
};

Report run(SimulatedEngine& engine) {
  while (!engine.idle()) {
    engine.step();
    EXPECT_LT(engine.num_steps(), 100000) << "somebody is starved";
    if (engine.num_steps() >= 100000) break;
  }
  engine.tell_events();
  EXPECT_EQ(engine.num_scheduler_sequences(), 0u);
  EXPECT_TRUE(engine.holds_nothing());
  Report report{engine.num_steps(), engine.num_prompt_rows(), {}};
  for (const auto& start : engine.starts()) report.order.push_back(start.id);
  return report;
}

SimulationOptions roomy() {
  return {.num_blocks = 4096, .token_budget = 2048, .seq_budget = 64, .holds_back = true};
}

// The pool holds a quarter of the prefixes, which fcfs computes again and again.
TEST(PrefixGroup, EachPrefixIsComputedOnceHoweverTheRequestsCome) {
  for (const bool hides : {false, true}) {
    SimulationOptions options = roomy();
    options.holds_back = hides;
    options.num_blocks = 16 * 512 / 16 / 4;
    SimulatedEngine grouped(prefix_group(), options, 1);
    options.percent_replaced = 100;
    SimulatedEngine first_come(prefix_group(), options, 1);
    for (SimulatedEngine* engine : {&grouped, &first_come}) {
      for (SimulatedRequest& request : draw_groups(*engine, 16, 16, 512, 64, 32)) engine->submit(std::move(request));
    }
    const Report ours = run(grouped), theirs = run(first_come);
    EXPECT_EQ(ours.prompt_rows, 16 * 512 + 256 * 64);
    EXPECT_GT(theirs.prompt_rows, 3 * ours.prompt_rows);
    EXPECT_LT(2 * ours.steps, theirs.steps);
    EXPECT_EQ(grouped.num_preemptions(), 0);
    RecordProperty("prompt_rows", std::to_string(ours.prompt_rows));
    RecordProperty("prompt_rows_first_come", std::to_string(theirs.prompt_rows));
  }
}

TEST(PrefixGroup, OneMemberRunsThePrefixAndTheOthersFollowFromTheCache) {
  SimulatedEngine engine(prefix_group(), {.num_blocks = 4096, .token_budget = 300, .seq_budget = 64}, 1);
  for (SimulatedRequest& request : draw_groups(engine, 1, 8, 480, 20, 4)) engine.submit(std::move(request));
  engine.step();
  EXPECT_EQ(engine.starts().size(), 1u);  // 300 of its 480 tokens
  engine.step();
  EXPECT_EQ(engine.starts().size(), 1u);
  engine.step();
  ASSERT_EQ(engine.starts().size(), 8u);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_EQ(engine.starts()[i].num_cached, 480);
  run(engine);
}

// Two run at a time, so the prefix would be evicted between members but for the pin.
TEST(PrefixGroup, ThePrefixStaysUntilAllMembersHaveHadItAndIsLetGoThen) {
  SimulationOptions options = roomy();
  options.seq_budget = 2;
  options.num_blocks = 44;
  SimulatedEngine engine(prefix_group(), options, 1);
  for (SimulatedRequest& request : draw_groups(engine, 1, 9, 480, 20, 20)) engine.submit(std::move(request));
  EXPECT_EQ(run(engine).prompt_rows, 480 + 9 * 20);
  EXPECT_GT(engine.num_pins(), 0);
  EXPECT_EQ(engine.num_dropped_pins(), 0);
}

TEST(PrefixGroup, AGroupThatDoesNotFitComesInParts) {
  SimulationOptions options = roomy();
  options.num_blocks = 64;  // 32 of the prefix, and six for each of five members
  SimulatedEngine engine(prefix_group(), options, 1);
  for (SimulatedRequest& request : draw_groups(engine, 1, 64, 512, 64, 32)) engine.submit(std::move(request));
  EXPECT_LE(run(engine).prompt_rows, 512 + 64 * 64 + 64 * 32);  // preempted members run their own tokens again, no more
}

// The index of each request's group in the order of admission; the groups of `requests` are told by their first token.
std::vector<int32_t> groups_in_order(const Report& report, const std::vector<int32_t>& group_of_id) {
  std::vector<int32_t> groups;
  for (const uint64_t id : report.order) {
    const int32_t group = group_of_id[id - 1];
    if (groups.empty() || groups.back() != group) groups.push_back(group);
  }
  return groups;
}

// What all have in common is one block: groups are made of what they share beyond it.
TEST(PrefixGroup, ASystemPromptOfAllRequestsDoesNotMakeThemOneGroup) {
  SimulationOptions options = roomy();
  options.num_blocks = 120;
  SimulatedEngine engine(prefix_group(), options, 1);
  const std::vector<int32_t> system = engine.draw_tokens(16);
  std::map<int32_t, std::size_t> prefixes;
  for (SimulatedRequest& request : draw_groups(engine, 6, 8, 512, 30, 16)) {
    prefixes.emplace(request.prompt.front(), prefixes.size());
    request.prompt.insert(request.prompt.begin(), system.begin(), system.end());
    engine.submit(std::move(request));
  }
  EXPECT_LE(run(engine).prompt_rows, 16 + 6 * 512 + 48 * 30 + 5 * 16);  // the system prompt may be lost in between
}

// Four parents, each with four children, each with four members: with room for a path and its members every token is
// computed once although the groups of a parent come apart.
TEST(PrefixGroup, GroupsThatShareALongerBeginningFollowEachOther) {
  SimulationOptions options = roomy();
  options.num_blocks = 100;
  SimulatedEngine engine(prefix_group(), options, 1);
  std::vector<SimulatedRequest> requests;
  for (int parent = 0; parent < 4; ++parent) {
    const std::vector<int32_t> first = engine.draw_tokens(512);
    for (SimulatedRequest& request : draw_groups(engine, 4, 4, 256, 32, 16)) {
      request.prompt.insert(request.prompt.begin(), first.begin(), first.end());
      requests.push_back(std::move(request));
    }
  }
  std::shuffle(requests.begin(), requests.end(), std::mt19937(9));
  for (SimulatedRequest& request : requests) engine.submit(request);
  const Report report = run(engine);
  EXPECT_EQ(report.prompt_rows, 4 * 512 + 16 * 256 + 64 * 32);
}

TEST(PrefixGroup, AHintKeepsRequestsTogetherThatShareNothing) {
  SimulationOptions options = roomy();
  options.seq_budget = 2;
  SimulatedEngine engine(prefix_group(), options, 1);
  std::vector<int32_t> hints;
  for (int i = 0; i < 24; ++i) {
    hints.push_back(i % 3 + 1);
    engine.submit({engine.draw_tokens(20), 3, 0, static_cast<uint64_t>(hints.back())});
  }
  EXPECT_THAT(groups_in_order(run(engine), hints), ElementsAre(1, 2, 3));
}

TEST(PrefixGroup, RequestsOfDifferentHintsAreNoGroupAlthoughTheyShareAPrefix) {
  SimulationOptions options = roomy();
  options.seq_budget = 2;
  options.holds_back = false;
  SimulatedEngine engine(prefix_group(), options, 1);
  std::vector<int32_t> hints;
  for (SimulatedRequest& request : draw_groups(engine, 1, 12, 64, 20, 3)) {
    hints.push_back(static_cast<int32_t>(hints.size()) % 2 + 1);
    request.group = static_cast<uint64_t>(hints.back());
    engine.submit(std::move(request));
  }
  EXPECT_THAT(groups_in_order(run(engine), hints), ElementsAre(1, 2));
}

TEST(PrefixGroup, BetterPriorityComesFirstWhateverTheGroups) {
  SimulationOptions options = roomy();
  options.seq_budget = 2;
  SimulatedEngine engine(prefix_group(), options, 1);
  std::vector<int32_t> priorities;
  for (SimulatedRequest& request : draw_groups(engine, 3, 6, 64, 20, 3)) {
    priorities.push_back(static_cast<int32_t>(priorities.size()) % 3);
    request.priority = priorities.back();
    engine.submit(std::move(request));
  }
  EXPECT_THAT(groups_in_order(run(engine), priorities), ElementsAre(0, 1, 2));
}

TEST(PrefixGroup, WithoutSharedPrefixesItIsFirstComeFirstServed) {
  SimulationOptions options = roomy();
  options.num_blocks = 60;
  options.seq_budget = 12;
  SimulatedEngine ours(prefix_group(), options, 1);
  options.percent_replaced = 100;
  SimulatedEngine theirs(prefix_group(), options, 1);
  for (SimulatedEngine* engine : {&ours, &theirs}) {
    for (int i = 0; i < 100; ++i) engine->submit(90, 30);
  }
  const Report a = run(ours), b = run(theirs);
  EXPECT_EQ(a.order, b.order);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(ours.num_rows(), theirs.num_rows());
}

// Long prompts with short answers come first, then short prompts with long answers: in that order the steps of the
// first are full and leave no place to decode, and those of the others hold a row for each place.
TEST(PrefixGroup, PromptsAndDecodesAreMixedAlthoughTheyComeApart) {
  SimulationOptions options = roomy();
  options.token_budget = 256;
  options.seq_budget = 16;
  SimulatedEngine ours(prefix_group(), options, 1);
  options.percent_replaced = 100;
  SimulatedEngine theirs(prefix_group(), options, 1);
  for (SimulatedEngine* engine : {&ours, &theirs}) {
    for (int i = 0; i < 60; ++i) engine->submit(1000, 4);
    for (int i = 0; i < 60; ++i) engine->submit(16, 100);
  }
  const Report a = run(ours), b = run(theirs);
  EXPECT_EQ(a.prompt_rows, b.prompt_rows);
  EXPECT_LT(static_cast<double>(a.steps), 0.8 * static_cast<double>(b.steps));
  RecordProperty("steps", std::to_string(a.steps));
  RecordProperty("steps_first_come", std::to_string(b.steps));
}

TEST(PrefixGroup, WithoutAPrefixCacheAGroupWaitsOnceAndRunsBesideItself) {
  SimulationOptions options = roomy();
  options.prefix_cache = options.holds_back = false;
  SimulatedEngine engine(prefix_group(), options, 1);
  for (SimulatedRequest& request : draw_groups(engine, 1, 16, 200, 20, 8)) engine.submit(std::move(request));
  EXPECT_LT(run(engine).steps, 20);  // 16 and more: each waits for the one before it
  EXPECT_EQ(engine.num_pins(), 0);
}

TEST(PrefixGroup, AMemberThatComesLateJoinsItsGroup) {
  SimulationOptions options = roomy();
  options.seq_budget = 2;
  SimulatedEngine engine(prefix_group(), options, 1);
  std::vector<SimulatedRequest> requests = draw_groups(engine, 1, 7, 160, 20, 30);
  const SimulatedRequest late = requests.back();
  requests.pop_back();
  for (SimulatedRequest& request : requests) engine.submit(std::move(request));
  const uint64_t alone = engine.submit(50, 5);
  for (int i = 0; i < 3; ++i) engine.step();
  const uint64_t id = engine.submit(late);
  const Report report = run(engine);
  EXPECT_LT(std::ranges::find(report.order, id), std::ranges::find(report.order, alone));
}

TEST(PrefixGroup, AViewWithASequenceThatWasNotAddedIsRefusedWithItsId) {
  void* self = nullptr;
  auto args = sized<mortise_create_args>();
  const OptionReader options({{"max_num_seqs", 8}, {"max_batched_tokens", 64}});
  options.give_to(args);
  ASSERT_EQ(prefix_group().create(nullptr, &args, &self, nullptr), MORTISE_OK);
  const uint64_t id = 42;
  auto seen = sized<mortise_schedule_view>();
  seen.num_seqs = 1;
  seen.block_size = 16;
  seen.seq_ids = &id;
  auto out = sized<mortise_schedule_plan>();
  mortise_error error = make_error();
  const auto& table = *static_cast<const mortise_scheduler_table*>(prefix_group().table);
  EXPECT_EQ(table.plan(static_cast<mortise_scheduler*>(self), &seen, &out, &error), MORTISE_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "sequence 42 was not added, or not in this order");
  prefix_group().destroy(self);
}

class PrefixGroupProperty : public ::testing::TestWithParam<Mix> {};
INSTANTIATE_TEST_SUITE_P(
    Mixes, PrefixGroupProperty,
    ::testing::Values(
        Mix{"Plain", {}}, Mix{"TinyPool", {.num_blocks = 5, .block_size = 4, .token_budget = 7, .seq_budget = 3}},
        Mix{"TinyPoolOfPrefixes",
            {.num_blocks = 9, .block_size = 4, .token_budget = 7, .seq_budget = 3, .num_prefixes = 3}},
        Mix{"Drafts", {.num_blocks = 24, .token_budget = 32, .max_lookahead = 5, .num_prefixes = 3}},
        Mix{"WholeDrafts",
            {.num_blocks = 24, .token_budget = 32, .max_lookahead = 5, .whole_drafts = true, .num_prefixes = 3}},
        Mix{"Priorities", {.num_blocks = 20, .num_priorities = 3, .num_prefixes = 2}},
        Mix{"Prefixes", {.num_blocks = 32, .num_prefixes = 5}},
        Mix{"NestedPrefixes", {.num_blocks = 32, .num_prefixes = 8, .nested = true}},
        Mix{"NestedPrefixesInFlight", {.num_blocks = 32, .num_prefixes = 8, .nested = true, .holds_back = true}},
        Mix{"Hints", {.num_blocks = 32, .num_prefixes = 3, .num_groups = 4, .holds_back = true}},
        Mix{"NoPrefixCache", {.num_blocks = 32, .num_prefixes = 5, .prefix_cache = false}},
        Mix{"OneSequence", {.seq_budget = 1, .num_prefixes = 5, .nested = true}},
        Mix{"BlocksOfOneToken", {.num_blocks = 200, .block_size = 1, .token_budget = 16, .num_prefixes = 4}},
        Mix{"PlansReplaced",
            {.num_blocks = 24, .num_priorities = 2, .num_prefixes = 4, .holds_back = true, .percent_replaced = 20}},
        Mix{"All",
            {.num_blocks = 18,
             .block_size = 8,
             .token_budget = 20,
             .seq_budget = 6,
             .max_lookahead = 3,
             .num_priorities = 2,
             .num_prefixes = 6,
             .nested = true,
             .num_groups = 2,
             .holds_back = true,
             .percent_replaced = 5}}),
    [](const auto& info) { return info.param.name; });

// As that of fcfs, with aborts: the simulated engine throws at any breach, and asks for each plan twice.
TEST_P(PrefixGroupProperty, EveryRequestFinishesAndNoBoundIsBroken) {
  SimulatedEngine engine(prefix_group(), GetParam().options, /*seed=*/7);
  std::mt19937_64 random(11);
  int64_t submitted = 0, aborted = 0;
  while (engine.num_steps() < 5000) {
    submitted += submit_arrivals(engine, random);
    if (random() % 200 == 0 && engine.num_live() > 1) {
      engine.abort_random();
      ++aborted;
    }
    ASSERT_NO_THROW(engine.step()) << "step " << engine.num_steps();
    ASSERT_LE(engine.num_scheduler_sequences(), engine.num_live() + static_cast<std::size_t>(engine.num_untold()));
  }
  ASSERT_NO_FATAL_FAILURE(run_to_the_end(engine));
  engine.tell_events();
  EXPECT_EQ(engine.num_scheduler_sequences(), 0u);
  EXPECT_EQ(engine.num_finished() + aborted, submitted);
  EXPECT_TRUE(engine.holds_nothing());
  RecordProperty("preemptions", std::to_string(engine.num_preemptions()));
  RecordProperty("pins", std::to_string(engine.num_pins()));
  RecordProperty("dropped_pins", std::to_string(engine.num_dropped_pins()));
}

// The id of a sequence that has ended is unknown, like one that was never added.
TEST(PrefixGroup, AViewThatShowsAnEndedSequenceIsRefused) {
  prefix_group::Backlog backlog;
  const std::vector<int32_t> tokens = {1, 2, 3};
  for (uint64_t id = 1; id <= 3; ++id) backlog.add(id, tokens, /*max_new_tokens=*/1, /*priority=*/0, /*group=*/0);
  backlog.end(2);
  const std::vector<uint64_t> ids = {1, 2, 3};
  for (const int32_t state : {MORTISE_SEQ_WAITING, MORTISE_SEQ_RUNNING}) {
    const std::vector<int32_t> states(3, state), computed(3, 0);
    auto view = sized<mortise_schedule_view>();
    view.block_size = 16;
    view.num_seqs = 3;
    view.seq_ids = ids.data();
    view.states = states.data();
    view.num_computed = computed.data();
    EXPECT_THROW(backlog.settle(view, 1000), Failure);
  }
}

}  // namespace
}  // namespace mortise::test
