// Covers: runtime/replay/request_collector
#include "replay/recorder.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <stdexcept>

#include "delivery/mailbox.hpp"
#include "engine/engine.hpp"
#include "error.hpp"
#include "fake_parts.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

using nlohmann::json;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    limits.max_num_seqs = limits.max_batched_tokens = 8;
    limits.max_logit_rows = 8;
    limits.max_model_len = 64;
    limits.block_size = 4;
    limits.num_blocks = 64;
  }

  std::vector<json> log() const {
    std::vector<json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }

  // Runs the requests with a recorder and returns what their sinks got.
  std::vector<Delta> run(std::vector<Request> requests) {
    Recorder recorder(path);
    test::FakeWorld world(limits);
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Delta> deltas;
    int open = 0;
    {
      EngineHooks hooks;
      hooks.watcher = &recorder.add_pipeline({"toy", "model", "fingerprint", "numerics", test::kVocab, "vocabulary"});
      Engine engine(world.parts(), limits, ModelInfo{test::kVocab, {}}, tokenizer, hooks);
      for (const Request& request : requests) open += request.sampling.n;
      for (Request& request : requests) {
        engine.submit(std::move(request), [&](const Delta& delta) {
          const std::lock_guard lock(mutex);
          deltas.push_back(delta);
          if (delta.finish != FinishReason::kNone && --open == 0) changed.notify_one();
        });
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open == 0; });
    }
    recorder.close();
    return deltas;
  }

  static Request request(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    return request;
  }

  EngineLimits limits;
  const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  test::TempFolder folder;
  const std::string path = (folder.path() / "log").string();
};

TEST_F(RecorderTest, WritesAHeaderAndALineForEachRequestWithLogProbabilities) {
  Request two = request({4, 5}, 3);
  two.sampling.n = 2;
  two.sampling.seed = 77;
  run({request({1, 2, 3}, 5), two});
  const std::vector<json> lines = log();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(read_log_header(lines[0]).pipeline, "toy");
  std::size_t num_tokens = 0;
  for (std::size_t i = 1; i < 3; ++i) {
    const RecordedRequest recorded = read_recorded_request(lines[i]);
    EXPECT_EQ(recorded.request.logprobs, std::nullopt);  // as the request wished, not as it ran
    for (const RecordedChoice& choice : recorded.choices) {
      num_tokens += choice.tokens.size();
      for (const TokenInfo& token : choice.tokens) EXPECT_NE(token.logprob, 0.0f);
    }
    if (recorded.choices.size() == 2) {
      EXPECT_EQ(recorded.request.sampling.seed, 77u);
    }
  }
  EXPECT_EQ(num_tokens, 5u + 2 * 3);
}

TEST_F(RecorderTest, FrontEndsSeeLogProbabilitiesOnlyIfTheyAskedForThem) {
  for (const Delta& delta : run({request({1, 2, 3}, 5)})) {
    for (const TokenInfo& token : delta.tokens) {
      EXPECT_EQ(token.rank, 0);
      EXPECT_EQ(token.logprob, 0.0f);
    }
  }
  Request asks = request({1, 2, 3}, 5);
  asks.logprobs = 1;
  for (const Delta& delta : run({asks})) {
    for (const TokenInfo& token : delta.tokens) {
      EXPECT_EQ(token.rank, 1);
      EXPECT_EQ(token.top.size(), 1u);
    }
  }
}

TEST_F(RecorderTest, SeesAllOfRequestsWhoseFrontEndFailsOrNeverReads) {
  test::FakeWorld world(limits);
  Mailbox unread(1);
  {
    Recorder recorder(path);
    {
      EngineHooks hooks;
      hooks.watcher = &recorder.add_pipeline({"toy", "model", "fingerprint", "numerics", test::kVocab, "vocabulary"});
      Engine engine(world.parts(), limits, ModelInfo{test::kVocab, {}}, tokenizer, hooks);
      engine.submit(request({1, 2}, 5), unread.channel());
      engine.submit(request({3, 4}, 5), [](const Delta&) { throw std::runtime_error("a front end's mistake"); });
      EXPECT_TRUE(engine.drain(std::chrono::steady_clock::time_point::max()));
    }
    recorder.close();
  }
  const std::vector<json> lines = log();
  ASSERT_EQ(lines.size(), 3u);  // fewer: a request of a front end that fails, or that does not read, is forgotten
  for (std::size_t i = 1; i < 3; ++i) {
    const RecordedRequest recorded = read_recorded_request(lines[i]);
    const RecordedChoice& choice = recorded.choices.at(0);
    const bool failed = recorded.request.prompt.front() == 3;
    EXPECT_TRUE(choice.finish == FinishReason::kLength || (failed && choice.finish == FinishReason::kAborted));
    if (!failed) {
      EXPECT_EQ(choice.tokens.size(), 5u);
    }
  }
  std::vector<Delta> deltas;
  unread.wait_for(std::chrono::hours(1), deltas);
  ASSERT_EQ(deltas.size(), 1u);
  ASSERT_EQ(deltas[0].tokens.size(), 5u);
  EXPECT_EQ(deltas[0].tokens[0].rank, 0);  // 1: what only the log asked for
}

TEST_F(RecorderTest, ContinuesALogBehindItsLastWholeLine) {
  run({request({1}, 1)});
  std::ofstream(path, std::ios::app) << R"({"request":)";
  run({request({2}, 1)});
  const std::vector<json> lines = log();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(is_log_header(lines[2]));
  EXPECT_EQ(lines[3]["prompt"], json::parse("[2]"));
}

TEST_F(RecorderTest, HalfAHeaderIsTheBeginningOfALog) {
  std::ofstream(path) << R"({"mortise_)";
  run({request({2}, 1)});
  EXPECT_EQ(log().size(), 2u);
}

TEST_F(RecorderTest, AFileThatIsNoLogIsLeftAlone) {
  for (const char* content : {"notes", "notes\n", "{}\n", "{\"mortise_log\n"}) {
    std::ofstream(path) << content;
    try {
      Recorder recorder(path);
      FAIL() << content;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), path + ": is not a request log; give --record a new file, or a log to continue");
    }
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(text.str(), content);
  }
}

TEST_F(RecorderTest, AFullDiskIsReportedAtTheEndAndHoldsNothingUp) {
  Recorder recorder("/dev/full");
  RequestWatcher& watcher = recorder.add_pipeline({});
  for (int i = 0; i < 10'000; ++i) {  // more than may wait to be written
    Request one = request({1}, 1);
    const Tap tap = watcher.watch(one);
    Delta end;
    end.finish = FinishReason::kLength;
    tap(end);
  }
  try {
    recorder.close();
    FAIL() << "a full disk";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/dev/full: cannot be written: No space left on device; the log is incomplete");
  }
}

}  // namespace
}  // namespace mortise
