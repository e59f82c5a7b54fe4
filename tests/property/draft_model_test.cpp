// draft_model in a pipeline of real parts: what it drafts is what its model says, however it got there, and what ended
// leaves nothing behind, in it and in the other proposers.
// Covers: plugins/proposers/draft_model/{draft_model,plugin} plugins/proposers/common/draft_runner
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

#include "difference.hpp"
#include "golden/write_safetensors.hpp"
#include "loader/catalog.hpp"
#include "mix.hpp"
#include "pipeline/pipeline_script.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

// Opens a pipeline of `model`; `proposer` and `scheduler` are Lua expressions for a script.
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

  // Runs requests, aborts a quarter of them at any moment, and holds that neither the engine nor a proposer has kept
  // anything of them. Half of them are some of `known`, if there are any.
  static Result run_with_aborts(const std::string& proposer, int num_requests, const std::vector<Request>& known = {}) {
    const std::unique_ptr<Assembly> assembly = open(models_[4].folder, proposer, "fcfs { max_num_seqs = 16 }");
    EngineLimits limits = assembly->limits();
    limits.num_blocks = 24;
    std::mt19937 random(6);
    Result result;
    {
      Running running(*assembly, limits);
      std::vector<RequestId> recent;  // that an abort hits one of, whatever it does at that moment
      std::uint64_t most_kept = 0;
      for (int i = 0; i < num_requests; ++i) {
        running.wait_for_at_most(31);
        most_kept = std::max(most_kept, running.engine().stats().num_proposer_sequences);
        const bool again = !known.empty() && random() % 2 == 0;
        const Request request = again ? known[random() % known.size()] : short_request(random);
        recent.push_back(running.submit(request, static_cast<std::size_t>(i)));
        if (random() % 4 == 0) {
          running.engine().abort(recent[recent.size() - 1 - random() % std::min<std::size_t>(recent.size(), 20)]);
        }
      }
      int aborted = 0;
      for (const auto& [key, outcome] : running.wait()) aborted += outcome.finish == FinishReason::kAborted;
      EXPECT_GT(aborted, num_requests / 20) << "the aborts came too late: " << proposer;
      result.stats = running.engine().stats();
      EXPECT_EQ(result.stats.num_free_blocks + result.stats.num_cached_free_blocks, limits.num_blocks) << proposer;
      EXPECT_EQ(result.stats.num_proposer_failures, 0u) << proposer;
      EXPECT_GT(result.stats.num_preemptions, 0u) << proposer;
      EXPECT_GT(most_kept, 4u) << "it says nothing of what it keeps: " << proposer;
      EXPECT_EQ(result.stats.num_proposer_sequences, 0u) << "something is kept of what ended: " << proposer;
    }
    result.runners = assembly->runner_stats();
    return result;
  }
  static Request short_request(std::mt19937& random) {
    Request request;
    for (std::size_t n = 1 + random() % 60; n > 0; --n) {
      request.prompt.push_back(static_cast<std::int32_t>(random() % 50));
    }
    request.sampling.temperature = random() % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.seed = random();
    request.sampling.max_tokens = 1 + static_cast<std::int32_t>(random() % 48);
    return request;
  }
  static void expect_nothing_left(const RunnerStats& runner) {
    EXPECT_GT(runner.num_forgotten, 0u) << "the pool was not short";
    EXPECT_EQ(runner.num_sequences, 0u);
    EXPECT_EQ(runner.num_free_blocks + runner.num_cached_free_blocks, runner.num_blocks);  // less: a block is lost
  }

  // Runs requests without drafts, writes them with their results as --record does, and returns them.
  static std::vector<Request> write_log(const std::filesystem::path& path) {
    std::mt19937 random(7);
    std::vector<Request> requests(50);
    for (Request& request : requests) request = short_request(random);
    const Outcomes outcomes = run(models_[4].folder, "nil", requests).outcomes;
    std::ofstream log(path);
    log << R"({"mortise_log": 1, "pipeline": "p", "vocab_size": 4096})" << '\n';
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto tokens = nlohmann::json::array();
      for (const TokenInfo& token : outcomes.at({i, 0}).tokens) tokens.push_back(token.id);
      const nlohmann::json choice = {{"tokens", tokens}};
      log << nlohmann::json{{"request", i},
                            {"prompt", requests[i].prompt},
                            {"choices", nlohmann::json::array({choice})}}
                 .dump()
          << '\n';
    }
    return requests;
  }
  // Two stages of random weights, for models_[4].
  static void write_speculator(const std::filesystem::path& folder) {
    constexpr std::int64_t kWidth = 64, kInner = 16, kVocab = 4096;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << nlohmann::json{
        {"model_type", "mlp_speculator"}, {"n_predict", 2},     {"emb_dim", kWidth}, {"inner_dim", kInner},
        {"vocab_size", kVocab},           {"tie_weights", true}};
    std::mt19937 random(8);
    std::normal_distribution<float> normal(0, 0.5f);
    std::vector<TensorToWrite> tensors;
    const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
      std::int64_t count = 1;
      for (const std::int64_t n : shape) count *= n;
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& value : values) value = normal(random);
      std::string bytes(values.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), values.data(), bytes.size());
      tensors.push_back({name, "F32", shape, bytes});
    };
    add("emb.0.weight", {kVocab, kInner});
    add("proj.0.weight", {kInner, kWidth});
    add("proj.1.weight", {kInner, kInner});
    add("ln.0.weight", {kInner});
    add("ln.0.bias", {kInner});
    add("head.0.weight", {kVocab, kInner});
    write_file(folder / "model.safetensors", safetensors_bytes(tensors));
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
        EXPECT_EQ(result.stats.num_accepted, result.stats.num_drafts) << k << " drafts" << more;
        EXPECT_GT(result.stats.num_drafts, 100u);
        EXPECT_EQ(result.stats.num_proposer_failures, 0u);
        // Each step drafts k of its k + 1 tokens. The prompt's step drafts none; a request's last step may lack up
        // to 8.
        if (*more == '\0') {
          EXPECT_GE(result.stats.num_drafts,
                    6u * 89u * static_cast<unsigned>(k) / (static_cast<unsigned>(k) + 1) - 6u * 8u);
          EXPECT_EQ(result.runners.front().num_forgotten, 0u);
          roomy = result.stats.num_drafts;
        } else {
          EXPECT_LT(result.stats.num_drafts, roomy) << "the pool was not short";
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
    for (int k = 1; k <= 8; ++k) {
      const Result result =
          run(models_[0].folder, draft_model(models_[3].folder, k, ", attention = { block_size = 32 }"), mix);
      EXPECT_EQ(difference(result.outcomes, alone), "") << k << " drafts";
      EXPECT_GT(result.stats.num_drafts, 100u);
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
  EXPECT_EQ(result.stats.num_accepted, result.stats.num_drafts);
  // Drafts are drawn up to position 64, which the draft model would not run any more; all later tokens come alone.
  EXPECT_LE(result.stats.num_drafts, 64u - 20u);
  EXPECT_GE(result.stats.num_drafts, 30u);
  EXPECT_EQ(result.stats.num_proposer_failures, 0u);
}

TEST_F(DraftModelTest, TenThousandRequestsWithAbortsLeaveNothingBehind) {
  // 16 blocks for the draft model, too few as the target's are.
  const Result result = run_with_aborts(draft_model(models_[4].folder, 3, ", kv_memory = '128KiB'"), 10000);
  EXPECT_GT(result.stats.num_accepted, 1000u);
  expect_nothing_left(result.runners.front());
}

// The other proposers: each keeps something of a sequence, and in a first_of all of them do.
TEST_F(DraftModelTest, RequestsWithAbortsLeaveNothingBehindInAnyProposer) {
  constexpr int kRequests = 2500;
  const std::filesystem::path log = folder_->path() / "requests.log", speculator = folder_->path() / "speculator";
  const std::vector<Request> known = write_log(log);
  write_speculator(speculator);
  const std::string oracle = fmt::format("oracle {{ log = '{}', rate = 0.8 }}", log.string());
  const std::string mlp = fmt::format("mlp_speculator {{ path = '{}' }}", speculator.string());

  EXPECT_GT(run_with_aborts(mlp, kRequests).stats.num_drafts, 1000u);
  EXPECT_GT(run_with_aborts(oracle, kRequests, known).stats.num_accepted, 1000u);
  // The draft model drafts nothing for sequences that do not fit its pool, so the last proposer gets them.
  const std::string all = fmt::format("first_of {{ ngram {{}}, {}, {}, {} }}", oracle,
                                      draft_model(models_[4].folder, 3, ", kv_memory = '128KiB'"), mlp);
  const Result result = run_with_aborts(all, kRequests, known);
  for (const ProposerStats& proposer : result.stats.speculation.proposers) {
    EXPECT_GT(proposer.num_drafts, 0u) << proposer.name;
  }
  expect_nothing_left(result.runners.front());
}

}  // namespace
}  // namespace mortise::test
