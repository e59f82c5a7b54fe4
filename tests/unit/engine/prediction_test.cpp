// Requests that bring tokens which they expect: whatever these are, the answer is the one that comes without them.
#include <gmock/gmock.h>

#include <random>

#include "engine_fixture.hpp"
#include "error.hpp"
#include "transcript.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

EngineLimits roomy_limits() {
  EngineLimits limits = small_limits();
  limits.max_batched_tokens = 400;
  limits.max_model_len = 640;
  limits.num_blocks = 400;
  return limits;
}

Request predicted(Request request, Ids prediction, bool resumed = false) {
  request.prediction = std::move(prediction);
  request.resumed = resumed;
  return request;
}

// A request's kinds: everything that verification has to get right.
std::map<std::string, Request> all_kinds() {
  std::map<std::string, Request> kinds;
  const auto add = [&](const char* name, Ids prompt, std::int32_t max_tokens, const auto& change) {
    Request& request = kinds[name] = greedy(std::move(prompt), max_tokens);
    request.sampling.ignore_eos = true;
    request.sampling.seed = 5;
    change(request);
  };
  const auto nothing = [](Request&) {};
  add("greedy", {1, 2, 3}, 100, nothing);
  add("one token", {1, 2, 4}, 1, nothing);
  add("two tokens", {1, 2, 5}, 2, nothing);
  add("to the length limit", Ids(600, 7), 100, nothing);
  add("log probabilities", {2, 1}, 60, [](Request& r) { r.logprobs = 3; });
  add("sampled", {2, 2}, 80, [](Request& r) {
    r.sampling.temperature = 0.7f;
    r.sampling.top_p = 0.9f;
  });
  add("frequency", {2, 3}, 80, [](Request& r) { r.sampling.frequency_penalty = 1.5f; });
  add("presence and repetition", {2, 4}, 80, [](Request& r) {
    r.sampling.presence_penalty = 2.0f;
    r.sampling.repetition_penalty = 1.3f;
    r.logprobs = 0;
  });
  add("bias", {2, 5}, 60, [](Request& r) {
    for (std::int32_t id = 0; id < 60; ++id) r.sampling.logit_bias[id] = -100;
  });
  add("min_tokens", {2, 6}, 80, [](Request& r) {
    r.sampling.ignore_eos = false;
    r.sampling.min_tokens = 30;
    for (std::int32_t id = 0; id < 60; ++id) r.sampling.stop_token_ids.push_back(id);
  });
  add("stop tokens", {2, 7}, 80, [](Request& r) { r.sampling.stop_token_ids = {3, 5, 11}; });
  add("a stop string", {2, 8}, 80, [](Request& r) { r.sampling.stop = {"e", "7", "B"}; });
  add("end tokens", {3, 1}, 200, [](Request& r) { r.sampling.ignore_eos = false; });
  add("three choices", {3, 2}, 40, [](Request& r) {
    r.sampling.n = 3;
    r.sampling.temperature = 1;
  });
  add("guided", {3, 3}, 16, [](Request& r) {
    r.sampling.choices = {"x", "xq", "xqz", "xqzQ", "zQ"};
    r.logprobs = 1;
  });
  add("scored prompt", {3, 4, 5, 6, 7}, 40, [](Request& r) { r.score_from = 1; });
  return kinds;
}

class PredictionTest : public EngineTest {
 protected:
  std::map<std::string, Choices> run(const EngineLimits& limits, const std::map<std::string, Request>& requests) {
    if (!world) world = std::make_unique<FakeWorld>(limits);
    start(limits, {kEnd});
    std::map<std::string, Collector> collectors;
    for (const auto& [name, request] : requests) engine->submit(request, collectors[name].sink());
    std::map<std::string, Choices> result;
    for (const auto& [name, request] : requests) result[name] = collectors[name].wait(request.sampling.n);
    stats = engine->stats();
    engine.reset();
    world.reset();
    return result;
  }
  Collector::Choice run_one(const Request& request) {
    Collector collector;
    engine->submit(request, collector.sink());
    return collector.wait().at(0);
  }
  std::string refusal(const Request& request) {
    try {
      engine->submit(request, [](const Delta&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  EngineStats stats;
};

// How a test makes a prediction from the answer.
const std::vector<std::pair<std::string, std::function<Ids(Ids)>>>& predictions() {
  static const std::vector<std::pair<std::string, std::function<Ids(Ids)>>> all = {
      {"right", [](Ids ids) { return ids; }},
      {"longer",
       [](Ids ids) {
         for (int i = 0; i < 50; ++i) ids.push_back(i);
         return ids;
       }},
      {"half",
       [](Ids ids) {
         ids.resize(ids.size() / 2);
         return ids;
       }},
      {"wrong",
       [](Ids ids) {
         for (std::int32_t& id : ids) id = (id + 1) % kVocab;
         return ids;
       }},
      {"every tenth wrong",
       [](Ids ids) {
         for (std::size_t i = 9; i < ids.size(); i += 10) ids[i] = (ids[i] + 1) % kVocab;
         return ids;
       }},
      {"shifted",
       [](Ids ids) {
         ids.insert(ids.begin(), {1, 2, 3, 4});
         return ids;
       }},
      {"without its beginning",
       [](Ids ids) {
         ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, ids.size())));
         return ids;
       }},
      {"end tokens", [](const Ids& ids) { return Ids(ids.size(), kEnd); }},
  };
  return all;
}

TEST_F(PredictionTest, NoPredictionChangesAnythingOfAnyRequest) {
  EngineLimits limits = roomy_limits();
  limits.max_num_seqs = 8;
  const std::map<std::string, Request> kinds = all_kinds();
  const auto plain = run(limits, kinds);
  EXPECT_EQ(plain.at("a stop string").at(0).last.finish, FinishReason::kStop);
  std::mt19937 random(7);
  std::uint64_t num_accepted = 0, num_rejected = 0, num_preemptions = 0, num_drafts = 0;
  for (const auto& [name, make] : predictions()) {
    for (int variant = 0; variant < 8; ++variant) {
      EngineLimits varied = limits;
      varied.batch_expansion = variant & 1;
      if (variant & 2) varied.num_blocks = 180;  // too few for all of them
      varied.max_batched_tokens = variant & 2 ? 23 : 400;
      varied.prefix_cache = variant < 6;
      const bool proposes = (variant & 4) != 0;
      varied.max_drafts = proposes ? 4 : 0;
      varied.adaptive_lengths = variant == 5;
      world = std::make_unique<FakeWorld>(varied);
      if (proposes) {
        world->propose = [&](std::uint64_t seq, std::int32_t most) {
          Ids history = world->observed.at(seq), drafts;
          for (std::int32_t i = 0; i < most; ++i) {
            drafts.push_back(random() % 4 == 0 ? 1 : next_token(history));
            history.push_back(drafts.back());
          }
          return drafts;
        };
      }
      std::map<std::string, Request> requests = kinds;
      for (auto& [kind, request] : requests) {
        request.prediction = make(plain.at(kind).at(0).ids());
        request.resumed = random() % 2 == 0;
        if (random() % 3 == 0) request.speculation.proposer = "none";
      }
      const auto got = run(varied, requests);
      for (const auto& [kind, choices] : plain) {
        EXPECT_EQ(transcript(got.at(kind)), transcript(choices))
            << kind << ": prediction " << name << ", variant " << variant;
        for (const auto& [index, choice] : got.at(kind)) {
          const Usage& usage = choice.last.usage;
          EXPECT_EQ(usage.accepted_prediction_tokens + usage.rejected_prediction_tokens,
                    static_cast<std::int32_t>(requests.at(kind).prediction.size()));
        }
      }
      EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, stats.num_blocks) << name << ": a block is lost";
      if (!proposes) {
        EXPECT_EQ(stats.num_drafts, 0u) << "a prediction's drafts were counted as a proposer's";
      }
      num_accepted += stats.num_accepted_prediction_tokens;
      num_rejected += stats.num_rejected_prediction_tokens;
      num_preemptions += stats.num_preemptions;
      num_drafts += stats.num_drafts;
    }
  }
  EXPECT_GT(num_accepted, 0u);
  EXPECT_GT(num_rejected, 0u);
  EXPECT_GT(num_preemptions, 0u);
  EXPECT_GT(num_drafts, 0u);  // 0: proposers were never asked after a prediction that failed
}

TEST_F(PredictionTest, ARightOneTakesFewSteps) {
  start(roomy_limits());
  const Ids prompt = {1, 2, 3};
  const Ids answer = expected(prompt, 500);
  const auto choice = run_one(predicted(greedy(prompt, 500), answer));
  EXPECT_EQ(choice.ids(), answer);
  // The prompt with 16, then 128, and the rest within max_batched_tokens.
  EXPECT_EQ(engine->stats().num_steps, 3u);
  EXPECT_EQ(choice.last.usage.accepted_prediction_tokens, 500);
  EXPECT_EQ(choice.last.usage.rejected_prediction_tokens, 0);
  EXPECT_EQ(choice.last.usage.draft_tokens, 0);
  EXPECT_EQ(engine->stats().num_accepted_prediction_tokens, 500u);
}

TEST_F(PredictionTest, AResumedOneIsVerifiedWithThePrompt) {
  start(roomy_limits());
  const Ids prompt = {1, 2, 3};
  const Ids answer = expected(prompt, 320);
  const Ids known(answer.begin(), answer.begin() + 300);
  EXPECT_EQ(run_one(predicted(greedy(prompt, 320), known, true)).ids(), answer);
  EXPECT_EQ(engine->stats().num_steps, 1u + 19u);  // 301 tokens in the first step
}

TEST_F(PredictionTest, AWrongOneCostsFewRows) {
  start(roomy_limits());
  const Ids prompt = {1, 2, 3};
  const auto choice = run_one(predicted(greedy(prompt, 300), Ids(300, 96)));
  EXPECT_EQ(choice.ids(), expected(prompt, 300));
  EXPECT_EQ(choice.last.usage.rejected_prediction_tokens, 300 - choice.last.usage.accepted_prediction_tokens);
  EXPECT_LE(engine->stats().num_rows, 302u + 2 * Prediction::kFirst + 30);
}

// Blocks of a prediction that failed would stay with it, and others would have to wait for them.
TEST_F(PredictionTest, BlocksOfWhatDidNotStandAreGivenBack) {
  EngineLimits limits = roomy_limits();
  world = std::make_unique<FakeWorld>(limits);
  std::int32_t most_held = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan.num_scheduled = 1;
    plan.seqs[0] = 0;
    plan.num_new_tokens[0] = view.num_tokens[0] - view.num_computed[0];
    if (view.num_computed[0] > 0) most_held = std::max(most_held, view.blocks_held[0]);
  };
  start(limits);
  EXPECT_EQ(run_one(predicted(greedy({1, 2, 3}, 20), Ids(300, 96), true)).ids(), expected({1, 2, 3}, 20));
  engine.reset();
  EXPECT_LE(most_held, (3 + 20 + 3) / 4);
}

TEST_F(PredictionTest, APlanMayGrantAnyPartOfIt) {
  EngineLimits limits = roomy_limits();
  world = std::make_unique<FakeWorld>(limits);
  std::mt19937 random(3);
  std::int32_t most_lookahead = 0;
  world->plan = [&](const mortise_schedule_view& view, mortise_schedule_plan& plan) {
    plan.num_scheduled = 1;
    plan.seqs[0] = 0;
    plan.num_new_tokens[0] = view.num_tokens[0] - view.num_computed[0];
    EXPECT_EQ(plan.max_drafts[0], view.lookahead[0]);
    EXPECT_LT(view.lookahead[0], view.token_budget);
    most_lookahead = std::max(most_lookahead, view.lookahead[0]);
    const std::int32_t most = std::min(view.lookahead[0], view.token_budget - plan.num_new_tokens[0]);
    plan.max_drafts[0] = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(most + 1));
  };
  start(limits);
  const Ids answer = expected({1, 2, 3}, 500);
  EXPECT_EQ(run_one(predicted(greedy({1, 2, 3}, 500), answer)).ids(), answer);
  EXPECT_EQ(engine->stats().num_rejected_plans, 0u);
  EXPECT_LT(engine->stats().num_steps, 30u);
  engine.reset();
  EXPECT_GT(most_lookahead, 100);
}

// Drafts take the rows that are left, so a sequence that decodes gets its token in every step.
TEST_F(PredictionTest, OthersGoOnBesideIt) {
  EngineLimits limits = roomy_limits();
  limits.max_batched_tokens = 20;
  start(limits);
  Collector other, long_one;
  engine->submit(greedy({4, 5}, 200), other.sink());
  other.wait_for_tokens(1);
  const Ids answer = expected({1, 2, 3}, 400);
  engine->submit(predicted(greedy({1, 2, 3}, 400), answer, true), long_one.sink());
  EXPECT_EQ(long_one.wait().at(0).ids(), answer);
  EXPECT_EQ(other.wait().at(0).ids(), expected({4, 5}, 200));
  // 200 steps for the other one, and 400 tokens in 18 rows each within them.
  EXPECT_LE(engine->stats().num_steps, 225u);
}

TEST_F(PredictionTest, WithRejectionSamplingItIsIgnoredAndRejected) {
  EngineLimits limits = roomy_limits();
  limits.rejection = true;
  start(limits);
  const Ids answer = expected({1, 2, 3}, 50);
  const auto choice = run_one(predicted(greedy({1, 2, 3}, 50), answer, true));
  EXPECT_EQ(choice.ids(), answer);
  EXPECT_EQ(engine->stats().num_steps, 50u);
  EXPECT_EQ(choice.last.usage.accepted_prediction_tokens, 0);
  EXPECT_EQ(choice.last.usage.rejected_prediction_tokens, 50);
}

TEST_F(PredictionTest, WhatCanBeNoAnswerIsRefused) {
  start(roomy_limits());
  EXPECT_EQ(refusal(predicted(greedy({1}, 4), {1, kVocab})), "the prediction has token id 97; ids are from 0 to 96");
  EXPECT_EQ(refusal(predicted(greedy({1}, 4), {-1})), "the prediction has token id -1; ids are from 0 to 96");
  EXPECT_THAT(refusal(predicted(greedy({1}, 4), Ids(641, 1))),
              HasSubstr("prediction of 641 tokens exceeds max_model_len 640"));
  EXPECT_EQ(refusal(predicted(greedy({1}, 4), Ids(640, 1))), "");
}

}  // namespace
}  // namespace mortise::test
