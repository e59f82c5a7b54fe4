// draft_model in a pipeline of real parts: what it drafts is what its model says, however it got there, and what ended
// leaves nothing behind.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>

#include "difference.hpp"
#include "loader/catalog.hpp"
#include "mix.hpp"
#include "pipeline/pipeline_script.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

// A pipeline of `model`; `proposer` and `scheduler` are what stands in their places in a script.
std::unique_ptr<Assembly> open(const std::filesystem::path& model, const std::string& proposer,
                               const std::string& scheduler = "fcfs {}") {
  const PluginCatalog catalog({MORTISE_BINARY_DIR});
  const std::string script = fmt::format(
      "return pipeline {{ device = cpu {{ threads = 1 }}, model = llama {{ path = '{}' }}, attention = paged {{}}, "
      "scheduler = {}, proposer = {}, kv_cache = {{ memory = '64MiB' }}, speculation = {{ lengths = 'fixed' }} }}",
      model.string(), scheduler, proposer);
  return std::make_unique<Assembly>(PipelineScript::from_text(script, "draft_model", "/", catalog).pipelines().front());
}

// Runs what is submitted and collects it.
class Running {
 public:
  Running(const Assembly& assembly, const EngineLimits& limits)
      : engine_(assembly.parts(), limits, assembly.model_info(), assembly.tokenizer()) {}

  RequestId submit(const Request& request, std::size_t name) {
    ++open_;
    return engine_.submit(request, [this, name](const Delta& delta) {
      const std::lock_guard lock(mutex_);
      ChoiceOutcome& outcome = outcomes_[{name, delta.choice}];
      outcome.tokens.insert(outcome.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      outcome.text += delta.text;
      if (delta.finish == FinishReason::kNone) return;
      outcome.finish = delta.finish;
      if (--open_ <= bound_) changed_.notify_all();
    });
  }
  void wait_for_at_most(int open) {
    std::unique_lock lock(mutex_);
    bound_ = open;
    changed_.wait(lock, [&] { return open_ <= open; });
  }
  Outcomes wait() {
    wait_for_at_most(0);
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }
  Engine& engine() { return engine_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcomes outcomes_;
  std::atomic<int> open_ = 0;
  int bound_ = 0;
  Engine engine_;  // last: it still sends news while it ends
};

class DraftModelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    models_ = write_random_models(folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::vector<Request> requests(float temperature, std::int32_t max_tokens, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Request> all(6);
    for (Request& request : all) {
      for (std::size_t n = 1 + random() % 200; n > 0; --n) {
        request.prompt.push_back(static_cast<std::int32_t>(random() % 4096));
      }
      request.sampling.temperature = temperature;
      request.sampling.seed = random();
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = max_tokens;
      request.logprobs = 2;
    }
    return all;
  }

  struct Result {
    Outcomes outcomes;
    EngineStats stats;
    std::vector<RunnerStats> runners;
  };
  static Result run(const std::filesystem::path& model, const std::string& proposer,
                    const std::vector<Request>& requests, const std::string& scheduler = "fcfs {}") {
    const std::unique_ptr<Assembly> assembly = open(model, proposer, scheduler);
    Running running(*assembly, assembly->limits());
    for (std::size_t i = 0; i < requests.size(); ++i) running.submit(requests[i], i);
    Result result;
    result.outcomes = running.wait();
    result.stats = running.engine().stats();
    result.runners = assembly->runner_stats();
    return result;
  }
  static std::string draft_model(const std::filesystem::path& path, int max_tokens, const std::string& more = "") {
    return fmt::format("draft_model {{ path = '{}', max_tokens = {}{} }}", path.string(), max_tokens, more);
  }

  static inline std::optional<TempFolder> folder_;
  static inline std::vector<RandomModel> models_;
};

// The case that corrupted other engines: in step after step all drafts are accepted, so that the draft model never runs
// its last draft while it drafts, and the token after it comes from the target. A KV entry that is missing or wrong
// makes the draft model say something else than the target, which it is.
TEST_F(DraftModelTest, AModelThatDraftsForItselfIsAlwaysRight) {
  const RandomModel& model = models_[1];  // with a window of 100
  for (const float temperature : {0.0f, 0.7f}) {
    const std::vector<Request> mix = requests(temperature, 90, 3);
    const Outcomes alone = run(model.folder, "nil", mix).outcomes;
    for (int k = 1; k <= 8; ++k) {
      std::uint64_t roomy = 0;
      for (const char* more : {"", ", kv_memory = '128KiB'"}) {  // the second: too little for all six
        const Result result = run(model.folder, draft_model(model.folder, k, more), mix,
                                  k % 2 == 0 ? "fcfs { max_batched_tokens = 64 }" : "fcfs {}");
        EXPECT_EQ(difference(result.outcomes, alone), "") << k << " drafts" << more;
        EXPECT_EQ(result.stats.num_accepted_tokens, result.stats.num_draft_tokens) << k << " drafts" << more;
        EXPECT_GT(result.stats.num_draft_tokens, 100u);
        EXPECT_EQ(result.stats.num_proposer_failures, 0u);
        if (*more == '\0') {  // all but the prompt's own token, and what did not fit in front of the end
          EXPECT_GE(result.stats.num_draft_tokens,
                    6u * 89u * static_cast<unsigned>(k) / (static_cast<unsigned>(k) + 1) - 6u * 8u);
          EXPECT_EQ(result.runners.front().num_forgotten, 0u);
          roomy = result.stats.num_draft_tokens;
        } else {
          EXPECT_LT(result.stats.num_draft_tokens, roomy) << "the pool was not short";
        }
      }
    }
  }
}

TEST_F(DraftModelTest, AnotherModelChangesNoTokenAndNoLogProbability) {
  for (const float temperature : {0.0f, 0.7f}) {
    std::vector<Request> mix = requests(temperature, 60, 4);
    for (std::size_t i = 0; i < mix.size(); ++i) {
      mix[i].sampling.top_p = 0.9f;
      if (i % 2 == 0) mix[i].sampling.repetition_penalty = 1.2f;
      if (i % 3 == 0) mix[i].sampling.presence_penalty = 0.5f;
    }
    const Outcomes alone = run(models_[0].folder, "nil", mix).outcomes;
    for (const int k : {1, 3, 8}) {
      const Result result =
          run(models_[0].folder, draft_model(models_[3].folder, k, ", attention = { block_size = 32 }"), mix);
      EXPECT_EQ(difference(result.outcomes, alone), "") << k << " drafts";
      EXPECT_GT(result.stats.num_draft_tokens, 100u);
    }
  }
}

TEST_F(DraftModelTest, NoDraftGoesBeyondTheDraftModelsLength) {
  const std::filesystem::path brief = folder_->path() / "brief";
  std::filesystem::copy(models_[0].folder, brief);
  std::ifstream in(models_[0].folder / "config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config["max_position_embeddings"] = 64;
  std::ofstream(brief / "config.json") << config;

  std::vector<Request> one = {requests(0, 200, 5).front()};
  one.front().prompt.resize(20, 7);
  const Outcomes alone = run(models_[0].folder, "nil", one).outcomes;
  const Result result = run(models_[0].folder, draft_model(brief, 4), one);
  EXPECT_EQ(difference(result.outcomes, alone), "");
  EXPECT_EQ(result.stats.num_accepted_tokens, result.stats.num_draft_tokens);
  // Drafts are drawn up to position 64, which the draft model would not run any more; all later tokens come alone.
  EXPECT_LE(result.stats.num_draft_tokens, 64u - 20u);
  EXPECT_GE(result.stats.num_draft_tokens, 30u);
  EXPECT_EQ(result.stats.num_proposer_failures, 0u);
}

TEST_F(DraftModelTest, TenThousandRequestsWithAbortsLeaveNothingBehind) {
  constexpr int kRequests = 10000;
  // 24 blocks for the target and 16 for the draft model: both are short.
  const std::unique_ptr<Assembly> assembly = open(
      models_[4].folder, draft_model(models_[4].folder, 3, ", kv_memory = '128KiB'"), "fcfs { max_num_seqs = 16 }");
  EngineLimits limits = assembly->limits();
  limits.num_blocks = 24;
  std::mt19937 random(6);
  {
    Running running(*assembly, limits);
    std::vector<RequestId> recent;  // that an abort hits one of, whatever it does at that moment
    for (int i = 0; i < kRequests; ++i) {
      running.wait_for_at_most(31);
      Request request;
      for (std::size_t n = 1 + random() % 60; n > 0; --n) {
        request.prompt.push_back(static_cast<std::int32_t>(random() % 50));
      }
      request.sampling.temperature = random() % 2 == 0 ? 0.0f : 0.7f;
      request.sampling.seed = random();
      request.sampling.max_tokens = 1 + static_cast<std::int32_t>(random() % 48);
      recent.push_back(running.submit(request, static_cast<std::size_t>(i)));
      if (random() % 4 == 0) {
        running.engine().abort(recent[recent.size() - 1 - random() % std::min<std::size_t>(recent.size(), 20)]);
      }
    }
    int aborted = 0;
    for (const auto& [key, outcome] : running.wait()) aborted += outcome.finish == FinishReason::kAborted;
    EXPECT_GT(aborted, kRequests / 20) << "the aborts came too late";
    const EngineStats stats = running.engine().stats();
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_blocks, limits.num_blocks);
    EXPECT_EQ(stats.num_proposer_failures, 0u);
    EXPECT_GT(stats.num_preemptions, 0u);
    EXPECT_GT(stats.num_accepted_tokens, 1000u);
  }
  const RunnerStats runner = assembly->runner_stats().front();
  EXPECT_GT(runner.num_forgotten, 0u);
  EXPECT_EQ(runner.num_sequences, 0u);
  EXPECT_EQ(runner.num_free_blocks + runner.num_cached_blocks, runner.num_blocks);  // less: a block is lost
}

}  // namespace
}  // namespace mortise::test
