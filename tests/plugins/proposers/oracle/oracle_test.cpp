// Covers: plugins/proposers/oracle/{plugin,recorded_texts} plugins/proposers/common/draft_runner
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "fake_runner.hpp"
#include "proposer_instance.hpp"
#include "temp_folder.hpp"

namespace mortise::oracle {
namespace {

using test::FakeRunner;
using test::ProposerInstance;
using test::Tokens;
using testing::HasSubstr;

constexpr const char* kHeader = R"({"mortise_log": 1, "pipeline": "p", "vocab_size": 100})";

std::string request(const Tokens& prompt, const std::vector<Tokens>& choices) {
  nlohmann::json json = {{"request", 1}, {"prompt", prompt}, {"choices", nlohmann::json::array()}};
  for (const Tokens& tokens : choices) json["choices"].push_back({{"tokens", tokens}});
  return json.dump();
}

class OracleTest : public testing::Test {
 protected:
  void write(const std::vector<std::string>& lines) {
    std::ofstream stream(file_);
    for (const std::string& line : lines) stream << line << '\n';
  }
  std::string options(double rate, uint64_t seed = 0) const {
    return nlohmann::json{{"log", file_.string()}, {"rate", rate}, {"seed", seed}, {"max_tokens", 64}}.dump();
  }
  // With a draft model.
  std::string options_with_model(double rate) const {
    return nlohmann::json{{"log", file_.string()}, {"rate", rate}, {"seed", 0}, {"max_tokens", 3}, {"path", "/draft"}}
        .dump();
  }
  std::string refusal() const {
    ProposerInstance proposer(options(1));
    return proposer.status == MORTISE_OK ? "accepted" : proposer.error.message;
  }

  const test::TempFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "requests.log";
};

Tokens counting(int32_t from, int32_t to) {
  Tokens tokens;
  for (int32_t i = from; i < to; ++i) tokens.push_back(i);
  return tokens;
}

TEST_F(OracleTest, DraftsWhatTheRequestBecame) {
  write({kHeader, request({1, 2}, {{3, 4, 5}, {6, 7, 8}}), request({1, 9}, {{3}})});
  ProposerInstance proposer(options(1));
  ASSERT_EQ(proposer.status, MORTISE_OK) << proposer.error.message;
  ASSERT_EQ(proposer.bind(100), MORTISE_OK);
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(2, 0, {1, 2, 6}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(3, 0, {1, 9, 4}), MORTISE_OK);  // not what was recorded
  EXPECT_EQ(proposer.propose({1, 2, 3}, {3, 3, 3}, {5, 1, 5}), (std::vector<Tokens>{{4, 5}, {7}, {}}));
  ASSERT_EQ(proposer.observe(2, 3, {7, 8}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({2}, {5}, {5}), (std::vector<Tokens>{{}}));  // its end
  EXPECT_EQ(proposer.num_sequences(), 3u);
  ASSERT_EQ(proposer.end({1, 2, 3}), MORTISE_OK);
  EXPECT_EQ(proposer.num_sequences(), 0u);
}

TEST_F(OracleTest, ATextThatIsAnothersBeginningIsNotInTheWay) {
  write({kHeader, request({1, 2}, {{3}, {3, 4, 5}})});
  ProposerInstance proposer(options(1));
  ASSERT_EQ(proposer.bind(100), MORTISE_OK);
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({1}, {3}, {5}), (std::vector<Tokens>{{4, 5}}));
}

TEST_F(OracleTest, ErrsAtItsRateAndAlwaysAtTheSamePlaces) {
  const Tokens text = counting(0, 20'000);
  write({kHeader, request({7}, {text})});
  for (double rate : {0.0, 0.5, 0.95}) {
    std::vector<Tokens> runs;
    for (std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
      ProposerInstance proposer(options(rate));
      ASSERT_EQ(proposer.bind(20'000), MORTISE_OK);
      Tokens drafted, told = {7};
      for (std::size_t at = 0; at < text.size(); at += step) {
        const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at);
        ASSERT_EQ(proposer.observe(1, at == 0 ? 0 : static_cast<int32_t>(at - step + 1), told), MORTISE_OK);
        const Tokens drafts =
            proposer.propose({1}, {static_cast<int64_t>(at) + 1}, {static_cast<int32_t>(step)}).front();
        drafted.insert(drafted.end(), drafts.begin(), drafts.end());
        told.assign(begin, begin + static_cast<std::ptrdiff_t>(std::min(step, text.size() - at)));
      }
      runs.push_back(drafted);
    }
    ASSERT_EQ(runs[0].size(), text.size());
    EXPECT_EQ(runs[0], runs[1]);  // different: errors depend on how much is drafted at a time
    EXPECT_EQ(runs[0], runs[2]);
    double right = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      ASSERT_TRUE(runs[0][i] >= 0 && runs[0][i] < 20'000);
      right += runs[0][i] == text[i] ? 1 : 0;
    }
    EXPECT_NEAR(right / static_cast<double>(text.size()), rate, rate == 0 ? 0 : 0.011);  // 3 standard deviations
  }
}

TEST_F(OracleTest, AnotherSeedErrsElsewhere) {
  const Tokens text = counting(0, 64);
  write({kHeader, request({7}, {text})});
  std::set<Tokens> drafts;
  for (uint64_t seed : {0, 1, 2}) {
    ProposerInstance proposer(options(0.5, seed));
    ASSERT_EQ(proposer.bind(100), MORTISE_OK);
    ASSERT_EQ(proposer.observe(1, 0, {7}), MORTISE_OK);
    drafts.insert(proposer.propose({1}, {1}, {64})[0]);
  }
  EXPECT_EQ(drafts.size(), 3u);
}

TEST_F(OracleTest, WhatIsNoLogIsRefusedWithItsLine) {
  const std::string name = file_.string();
  EXPECT_EQ(refusal(), name + ": cannot be read; check the path");
  const std::string end = "; the log is what --record writes";
  write({"hello"});
  EXPECT_EQ(refusal(), name + ": line 1: not a JSON object" + end);
  write({request({1}, {{2}})});
  EXPECT_EQ(refusal(), name + ": line 1: no header" + end);
  write({kHeader});
  EXPECT_EQ(refusal(), name + ": has no requests" + end);
  write({kHeader, R"({"prompt": 3, "choices": []})"});
  EXPECT_EQ(refusal(), name + ": line 2: prompt is no list" + end);
  write({kHeader, R"({"prompt": [1, -2], "choices": []})"});
  EXPECT_EQ(refusal(), name + ": line 2: prompt has -2, which is no token id" + end);
  write({kHeader, R"({"prompt": [1]})"});
  EXPECT_EQ(refusal(), name + ": line 2: choices is no list" + end);
  write({kHeader, R"({"prompt": [1], "choices": [3]})"});
  EXPECT_EQ(refusal(), name + ": line 2: choices has 3, which is no object" + end);
  std::ofstream(file_) << kHeader << '\n'
                       << request({1}, {{2}}) << "\n{\"prompt\": [1";  // the recording process was killed
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(OracleTest, ALogOfAnotherVocabularyIsRefused) {
  write({kHeader, request({1}, {{2, 500}})});
  ProposerInstance proposer(options(1));
  EXPECT_EQ(proposer.bind(500), MORTISE_INVALID_ARGUMENT);
  EXPECT_STREQ(proposer.error.message,
               "the log has token id 500 and the model has 500 tokens; record it with this model");
  EXPECT_EQ(proposer.bind(501), MORTISE_OK);
}

// The model runs each token once: what it drafted and was accepted stands, and its last draft runs with the bonus
// token.
TEST_F(OracleTest, AModelRunsWhatItWouldRunForTheseDrafts) {
  write({kHeader, request({1, 2}, {counting(3, 30)})});
  FakeRunner runner;  // it draws 0, which is never right
  ProposerInstance proposer(options_with_model(1), runner.table());
  ASSERT_EQ(proposer.status, MORTISE_OK) << proposer.error.message;
  ASSERT_EQ(proposer.bind(100), MORTISE_OK) << proposer.error.message;
  EXPECT_EQ(runner.path, "/draft");
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({1}, {3}, {3}), (std::vector<Tokens>{{4, 5, 6}}));
  EXPECT_THAT(runner.rows, testing::ElementsAre(testing::ElementsAre(testing::Pair(1, Tokens{1, 2, 3})),
                                                testing::ElementsAre(testing::Pair(1, Tokens{4})),
                                                testing::ElementsAre(testing::Pair(1, Tokens{5}))));
  EXPECT_EQ(runner.temperatures, (std::vector<std::vector<float>>(3, {0.5f})));
  EXPECT_EQ(runner.sequences[1].num_drafts, 3u);  // fewer: drafts would enter the prefix cache as if they had come true
  runner.rows.clear();
  ASSERT_EQ(proposer.observe(1, 3, {4, 5, 6, 7}), MORTISE_OK);  // all accepted, and the bonus token
  EXPECT_EQ(runner.sequences[1].num_drafts, 0u);
  EXPECT_EQ(proposer.propose({1}, {7}, {2}), (std::vector<Tokens>{{8, 9}}));
  EXPECT_THAT(runner.rows, testing::ElementsAre(testing::ElementsAre(testing::Pair(1, Tokens{6, 7})),
                                                testing::ElementsAre(testing::Pair(1, Tokens{8}))));
  runner.rows.clear();
  ASSERT_EQ(proposer.observe(1, 7, {8, 20}), MORTISE_OK);  // not what was recorded: no drafts, and no cost
  EXPECT_EQ(proposer.propose({1}, {9}, {3}), (std::vector<Tokens>{{}}));
  EXPECT_TRUE(runner.rows.empty());
}

TEST_F(OracleTest, AModelRunsForAllSequencesTogetherAndForWrongDraftsToo) {
  write({kHeader, request({1, 2}, {counting(3, 30)}), request({40}, {{41, 42, 43}})});
  FakeRunner runner;
  ProposerInstance proposer(options_with_model(0), runner.table());
  ASSERT_EQ(proposer.bind(100), MORTISE_OK);
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(2, 0, {40, 41}), MORTISE_OK);
  const std::vector<Tokens> drafts = proposer.propose({1, 2}, {3, 2}, {3, 3});
  ProposerInstance cheap(options(0));
  ASSERT_EQ(cheap.bind(100), MORTISE_OK);
  ASSERT_EQ(cheap.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  ASSERT_EQ(cheap.observe(2, 0, {40, 41}), MORTISE_OK);
  EXPECT_EQ(drafts, cheap.propose({1, 2}, {3, 2}, {3, 3}));  // the model has no say
  ASSERT_EQ(drafts[0].size(), 3u);
  ASSERT_EQ(drafts[1].size(), 2u);  // to the end of the text
  using testing::ElementsAre, testing::Pair;
  EXPECT_THAT(runner.rows, ElementsAre(ElementsAre(Pair(1, Tokens{1, 2, 3}), Pair(2, Tokens{40, 41})),
                                       ElementsAre(Pair(1, Tokens{drafts[0][0]}), Pair(2, Tokens{drafts[1][0]})),
                                       ElementsAre(Pair(1, Tokens{drafts[0][1]}))));
  runner.rows.clear();
  ASSERT_EQ(proposer.observe(1, 3, {4}), MORTISE_OK);  // none was accepted
  proposer.propose({1}, {4}, {1});
  EXPECT_THAT(runner.rows, ElementsAre(ElementsAre(Pair(1, Tokens{4}))));
}

TEST_F(OracleTest, WhereTheModelCannotDraftThereIsNoDraft) {
  write({kHeader, request({1, 2}, {counting(3, 30)}), request({40}, {{41, 42, 43}})});
  FakeRunner runner;
  runner.draw = [](uint64_t id, const FakeRunner::Sequence& sequence) {
    return id == 1 && sequence.tokens.size() >= 5 ? -1 : 0;  // say, its length ends there
  };
  ProposerInstance proposer(options_with_model(1), runner.table());
  ASSERT_EQ(proposer.bind(100), MORTISE_OK);
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  ASSERT_EQ(proposer.observe(2, 0, {40, 41}), MORTISE_OK);
  EXPECT_EQ(proposer.propose({1, 2}, {3, 2}, {3, 3}), (std::vector<Tokens>{{4, 5}, {42, 43}}));
}

TEST_F(OracleTest, TheModelIsToldWhoEnded) {
  write({kHeader, request({1, 2}, {counting(3, 30)})});
  FakeRunner runner;
  {
    ProposerInstance proposer(options_with_model(1), runner.table());
    ASSERT_EQ(proposer.bind(100), MORTISE_OK);
    ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
    ASSERT_EQ(proposer.observe(2, 0, {9}), MORTISE_OK);
    EXPECT_EQ(proposer.num_sequences(), 2u);
    ASSERT_EQ(proposer.observe(2, 1, {9}, {1}), MORTISE_OK);
    EXPECT_EQ(proposer.num_sequences(), 1u);
    EXPECT_EQ(runner.sequences.size(), 1u);
    ASSERT_EQ(proposer.end({2}), MORTISE_OK);
    EXPECT_EQ(proposer.num_sequences(), 0u);
    EXPECT_TRUE(runner.sequences.empty());
    EXPECT_EQ(runner.num_closed, 0);
  }
  EXPECT_EQ(runner.num_closed, 1);
}

TEST_F(OracleTest, AModelThatFailsIsToldOfAndMendsItself) {
  write({kHeader, request({1, 2}, {counting(3, 30)})});
  FakeRunner runner;
  ProposerInstance proposer(options_with_model(1), runner.table());
  ASSERT_EQ(proposer.bind(100), MORTISE_OK);
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3}), MORTISE_OK);
  runner.fails_update = true;
  EXPECT_EQ(proposer.observe(1, 3, {4}), MORTISE_INTERNAL);
  EXPECT_STREQ(proposer.error.message, "out of sorts");
  runner.fails_update = false;
  EXPECT_EQ(proposer.propose({1}, {4}, {2}), (std::vector<Tokens>{{}}));
  ASSERT_EQ(proposer.observe(1, 0, {1, 2, 3, 4}), MORTISE_OK);  // as the host does after a failure
  EXPECT_EQ(proposer.propose({1}, {4}, {2}), (std::vector<Tokens>{{5, 6}}));
}

TEST_F(OracleTest, AModelThatCannotRunIsRefusedAtBind) {
  write({kHeader, request({1}, {{2}})});
  {
    ProposerInstance proposer(options_with_model(1));
    EXPECT_EQ(proposer.bind(100), MORTISE_UNIMPLEMENTED);
    EXPECT_STREQ(proposer.error.message, "the host runs no second model (it does not offer mortise.host.runner/1)");
  }
  FakeRunner runner;
  runner.refusal = "/draft: no such folder";
  ProposerInstance proposer(options_with_model(1), runner.table());
  EXPECT_EQ(proposer.bind(100), MORTISE_FAILED_PRECONDITION);
  EXPECT_STREQ(proposer.error.message, "/draft: no such folder");
}

}  // namespace
}  // namespace mortise::oracle
