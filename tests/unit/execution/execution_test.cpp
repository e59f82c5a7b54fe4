// Steps of an Execution over fake parts: what comes back belongs to the row that it was asked for, and parts can be
// replaced between two steps.
// Covers: runtime/execution/{batch_builder,device_memory,head_pass,limits,parts,row_evaluator,row_scores,shard}
// Covers: runtime/execution/step_work
#include "execution/execution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_parts.hpp"

namespace mortise::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

EngineLimits limits() {
  EngineLimits limits;
  limits.max_num_seqs = 4;
  limits.max_batched_tokens = 16;
  limits.max_logit_rows = 3;  // fewer than a step has, so that it is done in chunks, which must not matter
  limits.max_model_len = 64;
  limits.block_size = 4;
  limits.num_blocks = 24;
  return limits;
}

// One prompt of a step, from its first token on, in blocks of its own.
struct Prompt {
  Tokens tokens;
  std::vector<BlockId> blocks;
};

// A step of whole prompts, and what is wanted of their rows.
struct Step {
  explicit Step(std::vector<Prompt> step_prompts) : prompts(std::move(step_prompts)) {
    for (const Prompt& prompt : prompts) {
      first_rows.push_back(num_rows);
      runs.push_back({runs.size() + 1, 0, prompt.tokens, {}, prompt.blocks});
      num_rows += runs.back().num_rows();
    }
  }
  // Draws after the prompt's last token; num_top -1: without a log probability.
  void draw(std::size_t prompt, std::int32_t num_top) {
    const auto length = static_cast<std::int32_t>(prompts[prompt].tokens.size());
    draws.rows.push_back(first_rows[prompt] + length - 1);
    draws.num_top.push_back(num_top);
    SamplingArrays& arrays = draws.sampling;
    for (auto* array : {&arrays.temperatures, &arrays.min_ps}) array->push_back(0);
    arrays.top_ps.push_back(1);
    arrays.top_ks.push_back(0);
    arrays.edits.emplace_back();
    arrays.allowed_index.push_back(-1);
    arrays.keys.push_back(7);
    arrays.positions.push_back(length);
  }
  // Scores token `index` of the prompt.
  void score(std::size_t prompt, std::int32_t index) {
    scores.rows.push_back(first_rows[prompt] + index - 1);
    scores.targets.push_back(prompts[prompt].tokens[static_cast<std::size_t>(index)]);
    scores.num_top.push_back(0);
  }
  StepWork work() const { return {1, runs, draws, scores, {}}; }

  std::vector<Prompt> prompts;
  std::vector<std::int32_t> first_rows;
  std::int32_t num_rows = 0;
  std::vector<RowRun> runs;
  DrawRows draws;
  ScoreRows scores;
};

StepResults run(Execution& execution, const Step& step) {
  const StepWork work = step.work();
  execution.launch(work);
  return execution.collect();
}

std::vector<Prompt> four_prompts() {
  return {{{1, 2, 3}, {0}}, {{4, 5}, {1}}, {{6, 7, 8, 9, 10}, {2, 3}}, {{11}, {4}}};
}

float logprob_of(const Tokens& history, std::int32_t token) {
  return fake_logit(hash_history(history), token) - 1;  // the fake's log-sum-exp is 1
}

TEST(ExecutionTest, EachRowGetsItsOwnTokenAndLogProbabilityWhateverTheirOrder) {
  FakeWorld world(limits());
  Execution execution({world.parts()}, limits());
  Step step(four_prompts());
  step.draw(2, 0);
  step.draw(0, -1);
  step.draw(3, 2);
  step.draw(1, -1);
  step.score(2, 1);
  step.score(2, 4);
  const StepResults results = run(execution, step);
  ASSERT_EQ(results.draws.size(), 4u);
  const std::size_t order[] = {2, 0, 3, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    const Tokens& history = step.prompts[order[i]].tokens;
    EXPECT_EQ(results.draws[i].id, next_token(history)) << i;
    if (step.draws.num_top[i] < 0) continue;
    EXPECT_EQ(results.draws[i].logprob, logprob_of(history, next_token(history))) << i;
    EXPECT_EQ(results.draws[i].rank, 1) << i;
    EXPECT_EQ(results.draws[i].top.size(), static_cast<std::size_t>(step.draws.num_top[i])) << i;
  }
  EXPECT_EQ(results.draws[1].rank, 0);  // 1: computed although nobody asked
  ASSERT_EQ(results.scores.size(), 2u);
  EXPECT_EQ(results.scores[0].id, 7);
  EXPECT_EQ(results.scores[0].logprob, logprob_of({6}, 7));
  EXPECT_EQ(results.scores[1].logprob, logprob_of({6, 7, 8, 9}, 10));
}

// The fake notes what is queued on the streams of a device with memory of its own.
TEST(ExecutionTest, SamplingArgumentsAreUploadedBesideTheForwardAndConsecutiveRowsAreNotGathered) {
  EngineLimits three = limits();
  three.max_logit_rows = 4;
  FakeWorld world(three);
  world.shares_memory = false;
  Execution execution({world.parts()}, three);
  const std::vector<Prompt> single_rows = {{{1}, {0}}, {{4}, {1}}, {{6}, {2}}, {{11}, {3}}};
  Step all(single_rows), some(single_rows);
  for (const std::size_t prompt : {0, 1, 2, 3}) all.draw(prompt, -1);
  for (const std::size_t prompt : {0, 2, 3}) some.draw(prompt, -1);
  const auto tokens_of = [&](const Step& step) {
    world.queued.clear();
    Tokens tokens;
    for (const TokenInfo& info : run(execution, step).draws) tokens.push_back(info.id);
    return tokens;
  };
  const std::vector<std::string> consecutive = {"copy", "record", "copy beside", "record beside", "wait", "copy"};
  EXPECT_THAT(tokens_of(all), ElementsAre(next_token({1}), next_token({4}), next_token({6}), next_token({11})));
  EXPECT_EQ(world.queued, consecutive);  // "copy" for "copy beside": it waits for the forward, and the head for it
  EXPECT_THAT(tokens_of(some), ElementsAre(next_token({1}), next_token({6}), next_token({11})));
  EXPECT_THAT(world.queued, ElementsAre("copy", "record", "copy beside", "record beside", "wait", "gather", "copy"));
}

TEST(ExecutionTest, ATokenThatTheHostPutsInThePlaceOfTheDrawnOneIsTheOneThatIsDescribed) {
  FakeWorld world(limits());
  Execution execution({world.parts()}, limits());
  Step step(four_prompts());
  for (std::size_t i = 0; i < 4; ++i) step.draw(i, 0);
  step.draws.wanted_logits = {{1, 3}};  // more than a chunk has
  std::vector<std::size_t> seen;
  step.draws.on_logits = [&](const DrawnLogits& drawn) {
    for (std::size_t i = 0; i < drawn.range.count; ++i) {
      const std::size_t draw = drawn.range.first + i;
      seen.push_back(draw);
      EXPECT_EQ(drawn.logits[i * drawn.stride + 5], fake_logit(hash_history(step.prompts[draw].tokens), 5));
      EXPECT_EQ(drawn.tokens[i], next_token(step.prompts[draw].tokens));
      drawn.tokens[i] = 90;
    }
  };
  const StepResults results = run(execution, step);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_EQ(results.draws[0].id, next_token(step.prompts[0].tokens));
  EXPECT_EQ(results.draws[2].id, 90);
  EXPECT_EQ(results.draws[2].logprob, logprob_of(step.prompts[2].tokens, 90));
}

TEST(ExecutionTest, FurtherChoicesLeaveOutWhatWasDrawnBefore) {
  FakeWorld world(limits());
  Execution execution({world.parts()}, limits());
  Step step(four_prompts());
  for (std::size_t i = 0; i < 4; ++i) step.draw(i, -1);
  step.draws.num_choices = 3;
  const StepResults results = run(execution, step);
  for (std::size_t i = 0; i < 4; ++i) {
    Tokens all(kVocab);
    for (std::int32_t v = 0; v < kVocab; ++v) all[static_cast<std::size_t>(v)] = v;
    const std::uint64_t hash = hash_history(step.prompts[i].tokens);
    std::ranges::stable_sort(all, std::greater<>(), [&](std::int32_t v) { return fake_logit(hash, v); });
    EXPECT_THAT((Tokens{results.draws[i].id, results.further_choices[2 * i], results.further_choices[2 * i + 1]}),
                ElementsAre(all[0], all[1], all[2]))
        << i;
  }
}

TEST(ExecutionTest, AStepWithoutWantedRowsGivesNothing) {
  FakeWorld world(limits());
  Execution execution({world.parts()}, limits());
  const Step step(four_prompts());
  const StepResults results = run(execution, step);
  EXPECT_TRUE(results.draws.empty());
  EXPECT_TRUE(results.scores.empty());
  EXPECT_EQ(execution.num_rows(), 11);
}

TEST(ExecutionTest, ReplacedPartsServeFromTheNextStepOnAndASnapshotKeepsTheOldOnesAlive) {
  FakeWorld first(limits()), second(limits());
  auto first_owner = std::make_shared<int>(), second_owner = std::make_shared<int>();
  ShardParts parts = first.parts();
  parts.owner = first_owner;
  Execution execution({parts}, limits());
  parts = second.parts();
  parts.owner = second_owner;
  const std::weak_ptr<int> first_alive = first_owner;
  first_owner.reset();

  Step step(four_prompts());
  step.draw(0, -1);
  run(execution, step);
  auto held = execution.snapshot();
  EXPECT_EQ(held->generation, 0u);
  EXPECT_EQ(execution.empty_step().generation, 0u);

  execution.replace({parts}, 1);
  EXPECT_EQ(execution.snapshot()->generation, 1u);
  EXPECT_EQ(execution.empty_step().generation, 1u);  // 0: plugins would not see that something changed
  EXPECT_EQ(run(execution, step).draws[0].id, next_token({1, 2, 3}));
  EXPECT_EQ(first.num_forwards, 1);
  EXPECT_EQ(second.num_forwards, 1);
  EXPECT_FALSE(first_alive.expired());
  held.reset();
  EXPECT_TRUE(first_alive.expired());  // false: replaced parts are never given back
}

TEST(ExecutionTest, PartsThatCannotBePutInLeaveTheOldOnesServing) {
  EngineLimits padded = limits();
  padded.padding_block = padded.num_blocks - 1;  // an Execution runs a batch of padding when it begins
  FakeWorld first(padded), second(padded);
  Execution execution({first.parts()}, padded);
  second.before_forward = [](std::int64_t) { throw std::runtime_error("no memory for the largest batch"); };
  EXPECT_THROW(execution.replace({second.parts()}, 1), PartError);
  EXPECT_EQ(execution.snapshot()->generation, 0u);
  Step step(four_prompts());
  step.draw(1, -1);
  EXPECT_EQ(run(execution, step).draws[0].id, next_token({4, 5}));
}

TEST(ExecutionTest, SizesAreTriedBeforeTheFirstStepOrOneByOneWhenAsked) {
  EngineLimits padded = limits();
  padded.padding_block = padded.num_blocks - 1;
  FakeWorld first(padded), second(padded);
  Execution at_once({first.parts()}, padded);
  EXPECT_FALSE(at_once.has_untried_sizes());
  Execution when_idle({second.parts()}, padded, 0, {}, WarmUp::kWhenIdle);
  EXPECT_EQ(second.num_forwards, 1);  // the largest batch: the start fails if there is no memory for it
  while (when_idle.has_untried_sizes()) when_idle.try_next_size();
  EXPECT_EQ(second.num_forwards, first.num_forwards);
  Step step(four_prompts());
  step.draw(1, -1);
  EXPECT_EQ(run(when_idle, step).draws[0].id, next_token({4, 5}));
}

// Graphs that run nothing when they are replayed: the hidden rows are still those of the captured step.
struct FakeGraphs {
  FakeGraphs() {
    table.struct_size = sizeof table;
    table.begin = [](mortise_device*, mortise_stream*, mortise_error*) { return mortise_status{MORTISE_OK}; };
    table.end = [](mortise_device*, mortise_stream*, mortise_graph** graph, mortise_error*) {
      *graph = reinterpret_cast<mortise_graph*>(static_cast<std::uintptr_t>(++num_captured));
      return mortise_status{MORTISE_OK};
    };
    table.replay = [](mortise_device*, mortise_stream*, mortise_graph*, mortise_error*) {
      return mortise_status{MORTISE_OK};
    };
    table.destroy = [](mortise_device*, mortise_graph*) { ++num_destroyed; };
    num_captured = num_destroyed = 0;
  }
  static int num_captured, num_destroyed;
  mortise_graph_table table{};
};
int FakeGraphs::num_captured, FakeGraphs::num_destroyed;

// Device and model have run all sizes already, and doing so again would keep streams waiting.
TEST(ExecutionTest, AnotherAttentionAloneRunsOneRowOfPaddingAndStepsAreCapturedAnew) {
  EngineLimits padded = limits();
  padded.padding_block = padded.num_blocks - 1;
  FakeWorld first(padded), second(padded);
  FakeGraphs graphs;
  ShardParts parts = first.parts();
  parts.graphs = &graphs.table;
  Execution execution({parts}, padded);
  Step step({{{11}, {4}}});
  step.draw(0, -1);
  for (int i = 0; i < 3; ++i) run(execution, step);
  EXPECT_EQ(execution.num_graph_replays(), 2u);
  EXPECT_EQ(graphs.num_captured, 1);

  const auto num_forwards = first.num_forwards;
  parts.attention = second.parts().attention;
  execution.replace({parts}, 1);
  EXPECT_EQ(execution.empty_step().generation, 1u);
  EXPECT_EQ(execution.empty_step().attention, parts.attention.self);
  EXPECT_EQ(first.num_forwards, num_forwards + 1);
  EXPECT_EQ(execution.num_graph_replays(), 0u);
  EXPECT_EQ(graphs.num_destroyed, 1);
  for (int i = 0; i < 3; ++i) run(execution, step);
  EXPECT_EQ(execution.num_graph_replays(), 2u);
  EXPECT_EQ(graphs.num_captured, 2);
  EXPECT_EQ(graphs.num_destroyed, 1);
}

TEST(ExecutionTest, AnAttentionThatFailsItsRowOfPaddingIsNotPutIn) {
  EngineLimits padded = limits();
  padded.padding_block = padded.num_blocks - 1;
  FakeWorld first(padded), second(padded);
  Execution execution({first.parts()}, padded);
  second.attention_status = [](const char*) { return mortise_status{MORTISE_INTERNAL}; };
  ShardParts parts = first.parts();
  parts.attention = second.parts().attention;
  EXPECT_THROW(execution.replace({parts}, 1), PartError);
  EXPECT_EQ(execution.snapshot()->generation, 0u);
  EXPECT_EQ(execution.empty_step().generation, 0u);
  EXPECT_EQ(execution.empty_step().attention, first.parts().attention.self);
  Step step(four_prompts());
  step.draw(1, -1);
  EXPECT_EQ(run(execution, step).draws[0].id, next_token({4, 5}));
}

TEST(ExecutionTest, AFailureNamesPartFunctionAndCodeAndTheInstanceIsNotCalledAgain) {
  FakeWorld world(limits());
  Execution execution({world.parts()}, limits());
  std::int64_t num_calls = 0;
  world.before_forward = [&](std::int64_t) {
    ++num_calls;
    throw std::runtime_error("out of luck");
  };
  Step step(four_prompts());
  step.draw(0, -1);
  const StepWork work = step.work();
  const auto failure = [&] {
    try {
      execution.launch(work);
    } catch (const PartError& error) {
      return std::string(error.what());
    }
    return std::string("nothing failed");
  };
  EXPECT_THAT(failure(),
              AllOf(HasSubstr("model 'fake'"), HasSubstr("forward"), HasSubstr("out of luck"), HasSubstr("INTERNAL")));
  EXPECT_THAT(failure(), AllOf(HasSubstr("is not called again"), HasSubstr("out of luck")));
  EXPECT_EQ(num_calls, 1);
}

TEST(ExecutionTest, EveryShardGetsTheSameWorkAndTheFirstOneAnswers) {
  FakeWorld first(limits()), second(limits());
  Execution execution({first.parts(), second.parts()}, limits());
  Step step(four_prompts());
  step.draw(2, -1);
  EXPECT_EQ(run(execution, step).draws[0].id, next_token({6, 7, 8, 9, 10}));
  EXPECT_EQ(first.kv, second.kv);
  EXPECT_EQ(second.num_forwards, 1);
  const BlockId from[] = {2}, to[] = {9};
  execution.copy_blocks(from, to);
  EXPECT_EQ(second.kv[9 * 4], 6);
  EXPECT_EQ(execution.empty_step().rank, 0);
  EXPECT_EQ(execution.empty_step().world, 2);
}

}  // namespace
}  // namespace mortise::test
