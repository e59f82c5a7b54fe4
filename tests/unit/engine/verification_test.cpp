// Drafts change nothing: requests of every kind, together in one batch with drafts of other lengths and qualities,
// bring what they bring without a proposer. The proposer knows what will come and errs where it is told to.
#include <gmock/gmock.h>

#include <random>

#include "engine_fixture.hpp"
#include "transcript.hpp"

namespace mortise::test {
namespace {

using Ids = std::vector<std::int32_t>;

struct Case {
  std::string name;
  Request request;  // no two have the same prompt
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, Ids prompt, std::int32_t max_tokens, const auto& change) {
    Case& added = cases.emplace_back(Case{name, greedy(std::move(prompt), max_tokens)});
    added.request.sampling.ignore_eos = true;
    change(added.request);
  };
  const auto nothing = [](Request&) {};
  add("greedy", {1, 2, 3}, 30, nothing);
  add("one token", {1, 2, 4}, 1, nothing);
  add("two tokens", {1, 2, 5}, 2, nothing);
  add("to the length limit", Ids(50, 7), 14, nothing);
  add("log probabilities", {2, 1}, 20, [](Request& r) { r.logprobs = 3; });
  add("sampled", {2, 2}, 20, [](Request& r) {
    r.sampling.temperature = 0.7f;
    r.sampling.top_p = 0.9f;
    r.sampling.seed = 5;
  });
  add("frequency", {2, 3}, 40, [](Request& r) { r.sampling.frequency_penalty = 1.5f; });
  add("presence and repetition", {2, 4}, 40, [](Request& r) {
    r.sampling.presence_penalty = 2.0f;
    r.sampling.repetition_penalty = 1.3f;
    r.logprobs = 0;
  });
  add("bias", {2, 5}, 20, [](Request& r) {
    for (std::int32_t id = 0; id < 60; ++id) r.sampling.logit_bias[id] = -100;
  });
  add("min_tokens", {2, 6}, 30, [](Request& r) {
    r.sampling.ignore_eos = false;
    r.sampling.min_tokens = 9;
    for (std::int32_t id = 0; id < 60; ++id) r.sampling.stop_token_ids.push_back(id);
  });
  add("stop tokens", {2, 7}, 40, [](Request& r) {
    for (std::int32_t id = 0; id < 12; ++id) r.sampling.stop_token_ids.push_back(id);
  });
  add("a stop string", {2, 8}, 40, [](Request& r) { r.sampling.stop = {"e", "7", "B"}; });
  add("a long stop string", {2, 9}, 40, [](Request& r) { r.sampling.stop = {"xyzxyzxyz"}; });
  add("end tokens", {3, 1}, 40, [](Request& r) { r.sampling.ignore_eos = false; });
  add("three choices", {3, 2}, 12, [](Request& r) { r.sampling.n = 3; });
  add("guided", {3, 3}, 16, [](Request& r) {
    r.sampling.choices = {"x", "xq", "xqz", "xqzQ", "zQ"};
    r.logprobs = 1;
  });
  add("scored prompt", {3, 4, 5, 6, 7}, 10, [](Request& r) { r.score_from = 1; });
  return cases;
}

class VerificationTest : public EngineTest {
 protected:
  std::map<std::string, Choices> run(const EngineLimits& limits) {
    start(limits, {kEnd});
    const std::vector<Case> cases = all_cases();
    std::vector<Collector> collectors(cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) engine->submit(cases[i].request, collectors[i].sink());
    std::map<std::string, Choices> result;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      result[cases[i].name] = collectors[i].wait(cases[i].request.sampling.n);
    }
    stats = engine->stats();
    engine.reset();
    return result;
  }

  // A proposer that knows the tokens that follow each prompt, and errs in this many of a hundred.
  void know(const std::map<std::string, Choices>& answers, int wrong_percent) {
    for (const Case& known : all_cases()) {
      answers_.push_back(known.request.prompt);
      const Ids ids = answers.at(known.name).at(0).ids();
      answers_.back().insert(answers_.back().end(), ids.begin(), ids.end());
    }
    world->propose = [this, wrong_percent](std::uint64_t seq, std::int32_t max) {
      most_asked = std::max(most_asked, max);
      const Ids& history = world->observed.at(seq);
      Ids drafts;
      for (const Ids& answer : answers_) {
        if (answer.size() < history.size() || !std::equal(history.begin(), history.end(), answer.begin())) continue;
        for (std::size_t i = history.size(); i < answer.size() && drafts.size() < static_cast<std::size_t>(max); ++i) {
          const bool wrong = static_cast<int>(random_() % 100) < wrong_percent;
          drafts.push_back(wrong ? static_cast<std::int32_t>(random_() % kVocab) : answer[i]);
        }
        break;
      }
      // Sequences of one batch have drafts of other lengths; beyond a known end comes anything.
      if (random_() % 3 == 0 && !drafts.empty()) drafts.resize(1 + random_() % drafts.size());
      while (random_() % 2 == 0 && drafts.size() < static_cast<std::size_t>(max)) drafts.push_back(kEnd);
      return drafts;
    };
  }

  EngineLimits limits_with(std::int32_t max_drafts) {
    EngineLimits limits = small_limits();
    limits.max_num_seqs = 8;
    limits.max_batched_tokens = 40;
    limits.num_blocks = 120;
    limits.max_drafts = max_drafts;
    return limits;
  }

  void compare(const std::map<std::string, Choices>& got, const std::map<std::string, Choices>& expected,
               const std::string& how) {
    for (const auto& [name, choices] : expected)
      EXPECT_EQ(transcript(got.at(name)), transcript(choices)) << name << how;
  }

  EngineStats stats;
  std::int32_t most_asked = 0;

 private:
  std::vector<Ids> answers_;
  std::mt19937 random_{23};
};

TEST_F(VerificationTest, DraftsOfAnyLengthAndQualityChangeNothingOfAnyRequest) {
  const auto plain = run(limits_with(0));
  world.reset();
  EXPECT_NE(plain.at("a stop string").at(0).text, plain.at("a long stop string").at(0).text);
  for (const bool expansion : {false, true}) {
    for (const bool adaptive : {false, true}) {
      for (std::int32_t length = 1; length <= 8; ++length) {
        for (const int wrong : {0, 20, 100}) {
          EngineLimits limits = limits_with(length);
          limits.batch_expansion = expansion;
          limits.adaptive_lengths = adaptive;
          world = std::make_unique<FakeWorld>(limits);
          know(plain, wrong);
          compare(run(limits), plain,
                  fmt::format(": length {}, {} % wrong{}{}", length, wrong, expansion ? ", expanded" : "",
                              adaptive ? ", adaptive" : ""));
          EXPECT_LE(most_asked, length);
          EXPECT_GT(stats.num_drafts, 0u);
          if (wrong == 0) {
            EXPECT_GT(stats.num_accepted, 0u);
          }
          most_asked = 0;
          world.reset();
        }
      }
    }
  }
}

TEST_F(VerificationTest, WithBatchExpansionNoDecodeHasMoreThanOneRow) {
  const auto plain = run(limits_with(0));
  world.reset();
  EngineLimits limits = limits_with(4);
  limits.batch_expansion = true;
  world = std::make_unique<FakeWorld>(limits);
  know(plain, 0);
  int repeated = 0;
  world->before_forward = [&](std::int64_t) {
    const mortise_batch& batch = *world->batch;
    for (std::int32_t i = 1; i < batch.num_seqs; ++i) {
      if (batch.seq_ids[i] != batch.seq_ids[i - 1]) continue;
      EXPECT_EQ(batch.cu_seqlens_q[i + 1] - batch.cu_seqlens_q[i], 1);
      ++repeated;
    }
  };
  compare(run(limits), plain, "");
  EXPECT_GT(repeated, 0);
}

TEST_F(VerificationTest, NoDraftIsAskedForBeyondTheLengthOfTheModelOrTheRequest) {
  EngineLimits limits = limits_with(8);
  world = std::make_unique<FakeWorld>(limits);
  world->propose = [&](std::uint64_t seq, std::int32_t max) {
    const auto known = static_cast<std::int32_t>(world->observed.at(seq).size());
    EXPECT_LE(known + max + 1, seq == 1 ? 64 : 12);  // drafts, and the token that comes with them
    return Ids(static_cast<std::size_t>(max), 1);
  };
  start(limits);
  Collector to_the_limit, short_one;
  engine->submit(greedy(Ids(40, 2), 1000), to_the_limit.sink());
  engine->submit(greedy({1, 2}, 10), short_one.sink());
  EXPECT_EQ(to_the_limit.wait().at(0).tokens.size(), 24u);
  EXPECT_EQ(short_one.wait().at(0).tokens.size(), 10u);
  engine.reset();
}

TEST_F(VerificationTest, FullAcceptanceForManyStepsIsCountedByPosition) {
  const auto plain = run(limits_with(0));
  world.reset();
  EngineLimits limits = limits_with(3);
  world = std::make_unique<FakeWorld>(limits);
  world->propose = [&](std::uint64_t seq, std::int32_t max) {
    Ids history = world->observed.at(seq), drafts;
    while (drafts.size() < static_cast<std::size_t>(max)) {
      drafts.push_back(next_token(history));
      history.push_back(drafts.back());
    }
    return drafts;
  };
  start(limits, {});
  Collector collector;
  engine->submit(greedy({1, 2, 3}, 29), collector.sink());
  EXPECT_EQ(collector.wait().at(0).ids(), expected({1, 2, 3}, 29));
  const SpeculationStats speculation = engine->stats().speculation;
  engine.reset();
  // The first token, then seven steps of three drafts and a bonus token.
  ASSERT_EQ(speculation.proposers.size(), 1u);
  EXPECT_EQ(speculation.proposers[0].name, "fake");
  EXPECT_EQ(speculation.proposers[0].drafted_at, (std::vector<std::uint64_t>{7, 7, 7}));
  EXPECT_EQ(speculation.proposers[0].accepted_at, (std::vector<std::uint64_t>{7, 7, 7}));
  EXPECT_EQ(speculation.proposers[0].mean_acceptance_length(), 4.0);
  EXPECT_EQ(speculation.num_steps, 7u);
  EXPECT_GT(speculation.verify_s, 0.0);
  EXPECT_GT(speculation.proposers[0].draft_s, 0.0);
}

TEST_F(VerificationTest, AProposerIsNotCalledForSequencesOfLengthZero) {
  EngineLimits limits = limits_with(4);
  limits.adaptive_lengths = true;
  world = std::make_unique<FakeWorld>(limits);
  int asked = 0;
  double now_s = 0;  // used on the engine's thread
  world->before_forward = [&](std::int64_t) { now_s += 1e-3; };
  world->propose = [&](std::uint64_t, std::int32_t max) {
    ++asked;
    EXPECT_GT(max, 0);
    now_s += 3e-3;
    return Ids(static_cast<std::size_t>(max), 96);  // never right, and dear
  };
  EngineHooks hooks;
  hooks.clock = [&] { return now_s; };
  engine = std::make_unique<Engine>(world->parts(), limits, ModelInfo{kVocab, {}}, tokenizer(), hooks);
  const auto run_one = [&](std::int32_t first) {
    Collector collector;
    engine->submit(greedy({first, 2}, 61), collector.sink());
    EXPECT_EQ(collector.wait().at(0).ids(), expected({first, 2}, 61));
  };
  for (int i = 0; i < 10; ++i) run_one(i);
  asked = 0;
  for (int i = 10; i < 20; ++i) run_one(i);
  engine.reset();
  EXPECT_LT(asked, 10);  // of 590 steps, probes that take half a percent of the time; 590: the lengths follow nothing
}

}  // namespace
}  // namespace mortise::test
