// Requests whose values become NaN harm nobody: in random mixes with such requests, run together in random ways, every
// request has the bits that it has alone, those with NaN their error among them. One token of each model has an
// embedding of NaN. MORTISE_NAN_MIXES (default 100) and MORTISE_PROPERTY_SEED make longer and other runs,
// MORTISE_PROPERTY_DEVICE=cuda runs on a GPU. A failure prints the seed of its mix.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "difference.hpp"
#include "mix.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise::test {
namespace {

constexpr int kShards = 8;  // the mixes are dealt to this many test cases, which ctest runs beside each other
constexpr std::int32_t kNanToken = 4095;       // the last: the tokenizer has no text for it
constexpr float kNever = -100, kAlways = 100;  // as a bias

class Nan : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    models_ =
        cuda_ ? write_random_gpu_models(folder_->path(), kNanToken) : write_random_models(folder_->path(), kNanToken);
    for (const RandomModel& model : models_) draft_models_.push_back(model.folder);
  }
  static void TearDownTestSuite() {
    draft_models_.clear();  // another suite of this class has models of its own
    folder_.reset();
  }

  static inline const bool cuda_ = variable("MORTISE_PROPERTY_DEVICE") == "cuda";
  static inline std::optional<TempFolder> folder_;
  static inline std::vector<RandomModel> models_;
  static inline std::vector<std::filesystem::path> draft_models_;
};

// Requests without the token, then some with it: in the prompt, most often another request's with one token replaced or
// added after a whole number of blocks, or as what is drawn first.
std::vector<Request> draw_mix(std::mt19937& random, const RandomModel& model, std::size_t& num_finite) {
  std::vector<Request> requests = draw_requests(random, model.vocab_size - 1, 700, 2500);
  for (Request& request : requests) request.sampling.logit_bias[kNanToken] = kNever;
  num_finite = requests.size();
  for (int left = 1 + static_cast<int>(random() % 4); left > 0; --left) {
    Request request = requests[random() % num_finite];
    request.sampling.seed = random();
    if (request.sampling.max_tokens == 0 && random() % 2 == 0) {
      request.score_from.reset();
      request.sampling.max_tokens = 4;
    }
    std::vector<std::int32_t>& prompt = request.prompt;
    const std::size_t at = random() % prompt.size();
    switch (random() % 4) {
      case 0:
        prompt[at] = kNanToken;
        break;
      case 1:
        prompt.push_back(kNanToken);
        break;
      case 2:
        prompt.insert(prompt.begin() + static_cast<std::ptrdiff_t>(at / 16 * 16), kNanToken);
        break;
      default:
        request.sampling.logit_bias[kNanToken] = kAlways;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST_P(Nan, InARequestHarmsNoOtherInAnyMix) {
  const int num_mixes = variable_or("MORTISE_NAN_MIXES", 100);
  const int base_seed = variable_or("MORTISE_PROPERTY_SEED", 1);
  const std::vector<std::string> isas = cuda_ ? gpu_isas() : machine_isas(/*fast_only=*/false);
  std::size_t errors = 0, finite = 0, later_errors = 0;
  std::uint64_t preemptions = 0, accepted = 0, drafts = 0, cached = 0;
  for (int mix = GetParam(); mix < num_mixes; mix += kShards) {
    std::mt19937 random(static_cast<std::uint32_t>(base_seed * 100000 + mix));
    const RandomModel& model = models_[static_cast<std::size_t>(mix / kShards) % models_.size()];
    std::size_t num_finite = 0;
    const std::vector<Request> requests = draw_mix(random, model, num_finite);
    std::vector<std::filesystem::path> draft_models = {model.folder};
    draft_models.insert(draft_models.end(), draft_models_.begin(), draft_models_.end());
    RunConfig config = draw_config(random, isas, draft_models, cuda_ ? "bf16" : "auto");
    if (model.comes_quantized) config.weights = "auto";
    config.shards = std::min(config.shards, model.most_shards);
    if (cuda_) put_on_cuda(config);
    if (random() % 3 == 0) config.max_num_seqs = 1;
    config.wrong_draft = kNanToken;
    config.errors_are_outcomes = true;
    const std::string where = fmt::format("mix {} of seed {}, model {}, {} requests, {} of them without NaN; {}", mix,
                                          base_seed, model.name, requests.size(), num_finite, config.describe());
    SCOPED_TRACE(where);

    // Alone those without NaN come first, in memory that has not seen one.
    const Outcomes alone = run_alone(model.folder, isas[random() % isas.size()], requests, config);
    for (const auto& [key, outcome] : alone) {
      if (key.first < num_finite) {
        EXPECT_EQ(outcome.error, "") << "request " << key.first;
        ++finite;
      }
      if (outcome.error.empty()) continue;
      ++errors;
      EXPECT_NE(outcome.error.find("every logit is NaN"), std::string::npos) << outcome.error;
      later_errors += outcome.tokens.empty() ? 0 : 1;
    }
    // Together they come in any order.
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Request> shuffled;
    Outcomes expected;
    for (std::size_t i = 0; i < order.size(); ++i) {
      shuffled.push_back(requests[order[i]]);
      for (std::int32_t choice = 0; choice < requests[order[i]].sampling.n; ++choice) {
        expected[{i, choice}] = alone.at({order[i], choice});
      }
    }
    const RunReport together = run_together(model.folder, config, shuffled, &expected);
    EXPECT_EQ(difference(together.outcomes, expected), "");
    if (config.twice) {
      EXPECT_EQ(difference(together.again, expected), "") << "the second time";
    }
    EXPECT_EQ(together.stats.num_free_blocks + together.stats.num_cached_free_blocks, together.stats.num_blocks)
        << "a block is lost";
    preemptions += together.stats.num_preemptions;
    accepted += together.stats.num_accepted;
    drafts += together.stats.num_drafts;
    cached += together.stats.num_cached_tokens;
  }
  fmt::print(
      "{} choices without NaN, {} errors, {} of them after a token; {} preemptions, {} of {} drafts accepted, {} "
      "cached tokens\n",
      finite, errors, later_errors, preemptions, accepted, drafts, cached);
  if (num_mixes >= 100) {
    EXPECT_GT(errors, 5u) << "too few requests became NaN";
    EXPECT_GT(finite, 20u);
  }
}

INSTANTIATE_TEST_SUITE_P(Mixes, Nan, ::testing::Range(0, kShards));

// A prompt whose 17th token is NaN, then prompts that begin with the same 16 tokens: they get its first block from the
// prefix cache, or the memory of both.
TEST_F(Nan, InTheTokenBehindABlockLeavesTheBlockAsItIs) {
  for (const RandomModel& model : models_) {
    std::mt19937 random(3);
    std::vector<Request> requests(4);
    for (int i = 0; i < 16; ++i) requests[0].prompt.push_back(static_cast<std::int32_t>(random() % kNanToken));
    requests[1].prompt = requests[2].prompt = requests[3].prompt = requests[0].prompt;
    for (const std::int32_t token : {5, 6, 7}) requests[1].prompt.push_back(token);
    requests[2].prompt.push_back(kNanToken);
    for (const std::int32_t token : {kNanToken, 5, 6}) requests[3].prompt.push_back(token);
    for (Request& request : requests) {
      request.sampling.temperature = 0;
      request.sampling.max_tokens = 6;
      request.sampling.ignore_eos = true;
      request.sampling.seed = random();
      request.sampling.logit_bias[kNanToken] = kNever;
      request.logprobs = 2;
    }
    RunConfig config;
    if (cuda_) put_on_cuda(config);
    config.errors_are_outcomes = true;
    const Outcomes alone = run_alone(model.folder, "auto", requests, config);
    for (const std::size_t request : {0u, 1u}) ASSERT_EQ(alone.at({request, 0}).tokens.size(), 6u);
    for (const std::size_t request : {2u, 3u}) {
      ASSERT_EQ(alone.at({request, 0}).finish, FinishReason::kError);
      ASSERT_TRUE(alone.at({request, 0}).tokens.empty());
    }
    std::vector<std::size_t> order = {0, 1, 2, 3};
    do {
      std::vector<Request> ordered;
      Outcomes expected;
      for (std::size_t i = 0; i < order.size(); ++i) {
        ordered.push_back(requests[order[i]]);
        expected[{i, 0}] = alone.at({order[i], 0});
      }
      for (const int max_num_seqs : {1, 4}) {
        config.max_num_seqs = max_num_seqs;
        config.attention = order[0] % 2 == 0 ? "paged" : "cascade";
        config.prefix_cache = order[1] % 2 == 0;
        config.twice = true;
        const RunReport report = run_together(model.folder, config, ordered, nullptr);
        EXPECT_EQ(difference(report.outcomes, expected), "") << model.name << ": " << config.describe();
        EXPECT_EQ(difference(report.again, expected), "") << model.name << ", the second time: " << config.describe();
        if (config.prefix_cache) {
          EXPECT_GT(report.stats.num_cached_tokens, 0u);
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

}  // namespace
}  // namespace mortise::test
