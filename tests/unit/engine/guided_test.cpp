// Requests with `choices`: what is drawn stays on the trie, alone, beside others, after drafts and after preemptions.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "engine_fixture.hpp"
#include "error.hpp"

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;
using ::testing::HasSubstr;

// Of characters that the demo's tokenizer merges with nothing; some are the beginning of others.
const std::vector<std::string> kChoices = {"x", "xq", "xqz", "xqzQ", "zQ", "ZqZ", "Q7", "q", "J"};

Ids encode(const std::string& text) {
  return tokenizer().encode(text, false);
}

Request guided(Ids prompt, const std::vector<std::string>& choices = kChoices) {
  Request request = greedy(std::move(prompt), 16);
  request.sampling.choices.assign(choices.begin(), choices.end());
  return request;
}

// What the fake model says when only choices may come: the likeliest of the tokens that go on with one of them, until
// no other choice goes on, or the end token is the likeliest.
Ids expected_choice(Ids history, const std::vector<std::string>& choices = kChoices) {
  Ids out;
  for (;;) {
    std::vector<std::int32_t> allowed;
    bool ends = false;
    for (const std::string& choice : choices) {
      const Ids ids = encode(choice);
      if (ids.size() < out.size() || !std::equal(out.begin(), out.end(), ids.begin())) continue;
      if (ids.size() == out.size()) ends = true;
      if (ids.size() > out.size()) allowed.push_back(ids[out.size()]);
    }
    if (allowed.empty()) return out;
    if (ends) allowed.push_back(kEnd);
    const std::uint64_t hash = hash_history(history);
    const std::int32_t best = *std::max_element(
        allowed.begin(), allowed.end(), [&](auto a, auto b) { return fake_logit(hash, a) < fake_logit(hash, b); });
    out.push_back(best);
    history.push_back(best);
    if (best == kEnd) return out;
  }
}

std::string text_of(const Ids& ids) {
  return tokenizer().decode(ids.back() == kEnd ? std::span(ids).first(ids.size() - 1) : std::span(ids), true);
}

class GuidedTest : public EngineTest {
 protected:
  // Runs requests with the prompts {i, i + 1} and compares each with what it must give.
  void run_and_compare(std::int32_t num_requests) {
    std::vector<Collector> collectors(static_cast<std::size_t>(num_requests));
    for (std::int32_t i = 0; i < num_requests; ++i) {
      engine->submit(guided({i, i + 1}), collectors[static_cast<std::size_t>(i)].sink());
    }
    all_here = true;
    for (std::int32_t i = 0; i < num_requests; ++i) {
      const auto choice = collectors[static_cast<std::size_t>(i)].wait().at(0);
      const Ids ids = expected_choice({i, i + 1});
      EXPECT_EQ(choice.ids(), ids) << "request " << i;
      EXPECT_EQ(choice.text, text_of(ids));
      EXPECT_EQ(std::count(kChoices.begin(), kChoices.end(), choice.text), 1) << choice.text;
      EXPECT_EQ(choice.last.finish, FinishReason::kStop);
      EXPECT_EQ(choice.last.stop_token, ids.back() == kEnd ? std::optional(kEnd) : std::nullopt);
    }
  }

  std::atomic<bool> all_here = false;  // run_and_compare has submitted its requests
};

TEST_F(GuidedTest, TheTextIsOneOfTheChoices) {
  start(small_limits(), {kEnd});
  run_and_compare(60);
  EXPECT_EQ(world->num_sample_calls_without_masks, 0) << "every row was guided";
}

TEST_F(GuidedTest, DraftsOfAnyQualityChangeNoToken) {
  for (int correct_percent : {0, 50, 100}) {
    EngineLimits limits = small_limits();
    limits.max_drafts = 3;
    world = std::make_unique<FakeWorld>(limits);
    std::mt19937 random(5);
    world->propose = [&](std::uint64_t seq, std::int32_t max) {
      const Ids history = world->observed.size() > seq ? world->observed[seq] : Ids{};
      Ids drafts;
      if (history.size() < 2) return drafts;
      const Ids all = expected_choice({history[0], history[1]});
      for (std::size_t i = history.size() - 2; drafts.size() < static_cast<std::size_t>(max); ++i) {
        const bool correct = static_cast<int>(random() % 100) < correct_percent && i < all.size();
        // Wrong ones are letters of choices, so that they lie on the trie often enough.
        drafts.push_back(correct ? all[i] : encode("xqzQJ")[random() % 5]);
      }
      return drafts;
    };
    start(limits, {kEnd});
    run_and_compare(40);
    const EngineStats stats = engine->stats();
    EXPECT_GT(stats.num_drafts, 0u);
    if (correct_percent == 100) {
      EXPECT_GT(stats.num_accepted, 0u);
    }
    engine.reset();
    world.reset();
  }
}

TEST_F(GuidedTest, PreemptionsChangeNoToken) {
  EngineLimits limits = small_limits();
  limits.block_size = 1;
  limits.num_blocks = 9;
  world = std::make_unique<FakeWorld>(limits);
  // Requests that are submitted slowly would never meet.
  world->before_forward = [&](std::int64_t count) {
    while (count == 0 && !all_here) std::this_thread::yield();
  };
  start(limits, {kEnd});
  run_and_compare(40);
  EXPECT_GT(engine->stats().num_preemptions, 0u) << "the pool was never short: this test shows less than it should";
}

TEST_F(GuidedTest, FreeRequestsBesideGuidedOnesAreFree) {
  start(small_limits(), {});
  Collector free, bound;
  engine->submit(greedy({1, 2, 3}, 20), free.sink());
  engine->submit(guided({1, 2, 3}, {"xqzQ", "zQ", "J"}), bound.sink());
  EXPECT_EQ(free.wait().at(0).ids(), expected({1, 2, 3}, 20));
  EXPECT_EQ(bound.wait().at(0).ids(), expected_choice({1, 2, 3}, {"xqzQ", "zQ", "J"}));
}

TEST_F(GuidedTest, WithoutAGuidedRowNoMaskIsUploaded) {
  Collector collector;
  start().submit(greedy({1, 2, 3}, 5), collector.sink());
  collector.wait();
  EXPECT_EQ(world->num_sample_calls_without_masks, 5);
}

TEST_F(GuidedTest, ChoicesOfARequestThatStandAtTheSamePlaceShareAMask) {
  Request request = guided({1, 2}, {"xq", "zQ"});
  request.sampling.n = 3;
  Collector collector;
  start().submit(request, collector.sink());
  for (const auto& [index, choice] : collector.wait(3)) EXPECT_EQ(choice.ids(), expected_choice({1, 2}, {"xq", "zQ"}));
  EXPECT_EQ(world->most_masks, 1);
}

TEST_F(GuidedTest, LogProbabilitiesStayTheRawOnes) {
  Request request = guided({4, 5});
  request.logprobs = 2;
  Collector collector;
  start(small_limits(), {kEnd}).submit(request, collector.sink());
  Ids history = {4, 5};
  const auto choice = collector.wait().at(0);
  for (const TokenInfo& info : choice.tokens) {
    const std::uint64_t hash = hash_history(history);
    EXPECT_EQ(info.logprob, fake_logit(hash, info.id) - 1.0f);
    EXPECT_EQ(info.top.at(0), std::pair(0, fake_logit(hash, 0) - 1.0f));  // token 0 is in no choice
    history.push_back(info.id);
  }
}

TEST_F(GuidedTest, IgnoreEosDoesNotTakeTheEndAway) {
  start(small_limits(), {kEnd});
  for (std::int32_t i = 0; i < 20; ++i) {
    Request request = guided({i, 7}, {"x", "xq"});
    request.sampling.ignore_eos = true;
    Collector collector;
    engine->submit(request, collector.sink());
    EXPECT_EQ(collector.wait().at(0).ids(), expected_choice({i, 7}, {"x", "xq"}));
  }
}

TEST_F(GuidedTest, AStopTokenMayEndAChoiceWhereTheModelHasNoEndToken) {
  start(small_limits(), {});
  Request request = guided({3, 7}, {"x", "xq"});
  EXPECT_THROW(engine->submit(request, [](const Delta&) {}), Error);
  request.sampling.stop_token_ids = {kEnd};
  Collector collector;
  engine->submit(request, collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected_choice({3, 7}, {"x", "xq"}));
}

TEST_F(GuidedTest, BiasAndPenaltiesChooseAmongTheChoices) {
  start(small_limits(), {kEnd});
  for (const std::string wanted : {"Q7", "zQ", "J"}) {
    Request request = guided({3, 7});
    request.sampling.logit_bias[encode(wanted)[0]] = 100;
    Collector collector;
    engine->submit(request, collector.sink());
    EXPECT_EQ(collector.wait().at(0).text, wanted);
  }
  // A bias against every token of the vocabulary bans none of the choices: -100 is a number.
  Request request = guided({3, 7});
  for (std::int32_t token = 0; token < kVocab; ++token) request.sampling.logit_bias[token] = -100;
  Collector collector;
  engine->submit(request, collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected_choice({3, 7}));
}

TEST_F(GuidedTest, TheRoomOfARequestIsThatOfItsLongestChoice) {
  EngineLimits limits = small_limits();
  limits.num_blocks = 2;  // 8 tokens
  start(limits, {kEnd});
  Request request = guided({1, 2, 3, 4});
  request.sampling.max_tokens = INT32_MAX;
  Collector collector;
  engine->submit(request, collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected_choice({1, 2, 3, 4}));
}

TEST_F(GuidedTest, RefusesChoicesThatCannotBe) {
  start(small_limits(), {kEnd});
  const auto refusal = [&](const Request& request) -> std::string {
    try {
      engine->submit(request, [](const Delta&) {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(guided({1}, {"x", "yes"})), HasSubstr("choices[1]: \"yes\" has token id"));
  EXPECT_THAT(refusal(guided({1}, {"x", ""})), HasSubstr("choices[1] is empty"));
  EXPECT_THAT(refusal(guided({1}, {"xw"})), HasSubstr("choices[0]: \"xw\" has token id 90, which ends an answer"));
  Request request = guided({1});
  request.sampling.max_tokens = 3;
  EXPECT_THAT(refusal(request), HasSubstr("choices[3]: \"xqzQ\" needs 4 tokens, but only 3 may be generated"));
  EXPECT_THAT(refusal(guided(Ids(61, 1))), HasSubstr("\"xqzQ\" needs 4 tokens, but only 3 may be generated"));
}

}  // namespace
}  // namespace mortise::test
