// The promise as a property: random mixes, run together in random ways, give every request the bits that it gets alone
// on another instruction set without prefix cache. MORTISE_PROPERTY_MIXES (default 200) and MORTISE_PROPERTY_SEED make
// longer and other runs, MORTISE_PROPERTY_160M=1 runs a model of 160 million parameters in place of the small ones,
// MORTISE_PROPERTY_DEVICE=cuda runs on a GPU: together as captured graphs, alone without. MORTISE_PROPERTY_GPUS=0,1
// lists the GPUs of its ranks (default 0). A failure prints the seed of its mix.
// Covers: runtime/assembly/{assembly,part_set,proposer_set} runtime/execution/{model_stack,weight_reader}
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "difference.hpp"
#include "mix.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise::test {
namespace {

// The mixes are dealt to this many test cases, which ctest runs beside each other.
constexpr int kShards = 8;

class Exactness : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    if (large_) {
      models_ = {write_large_model(folder_->path())};
      draft_models_ = {models_.front().folder};
      return;
    }
    models_ = cuda_ ? write_random_gpu_models(folder_->path()) : write_random_models(folder_->path());
    models_.push_back({"demo", 4096, MORTISE_SOURCE_DIR "/models/demo", false, 4});
    for (const RandomModel& model : models_) draft_models_.push_back(model.folder);
    draft_models_.push_back(MORTISE_SOURCE_DIR "/models/demo-draft");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static RunConfig draw_config_for(const RandomModel& model, const std::vector<std::string>& isas,
                                   std::mt19937& random) {
    std::vector<std::filesystem::path> draft_models = {model.folder};
    draft_models.insert(draft_models.end(), draft_models_.begin(), draft_models_.end());
    RunConfig config = draw_config(random, isas, draft_models, cuda_ ? "bf16" : "auto");
    if (model.name == "demo" && random() % 2 == 0) {
      config.proposer = fmt::format("mlp_speculator {{ path = '{}-mlp-speculator', max_tokens = {} }}",
                                    model.folder.string(), 1 + random() % 4);
    }
    config.shards = std::min(config.shards, model.most_shards);
    if (cuda_) put_on_cuda(config);
    if (model.comes_quantized) config.weights = "auto";
    return config;
  }

  // The one that the requests run on alone: another one, if there is any.
  static std::string other_isa(const RunConfig& config, const std::vector<std::string>& isas, std::mt19937& random) {
    std::vector<std::string> others;
    for (const std::string& isa : isas) {
      if (isa != config.isa) others.push_back(isa);
    }
    return others.empty() ? config.isa : others[random() % others.size()];
  }

  void run_mix(const std::string& name, const RandomModel& model, const RunConfig& config,
               const std::vector<Request>& requests, const std::string& isa_alone) {
    const Outcomes alone = run_alone(model.folder, isa_alone, requests, config);
    const RunReport together = run_together(model.folder, config, requests, &alone);
    EXPECT_EQ(difference(together.outcomes, alone), "")
        << name << ", model " << model.name << ", " << requests.size() << " requests, alone on " << isa_alone
        << "; together: " << config.describe();
    if (config.twice) {
      EXPECT_EQ(difference(together.again, alone), "") << name << ", the second time: " << config.describe();
    }
    EXPECT_EQ(together.stats.num_free_blocks + together.stats.num_cached_free_blocks, together.stats.num_blocks)
        << name << ": a block is lost";
    EXPECT_EQ(together.stats.num_rejected_plans, 0u) << "the schedulers of this test make valid plans";
    if (config.checked && !config.drafts_fail) {
      EXPECT_EQ(together.stats.num_proposer_failures, 0u) << name << ": a call broke a rule: " << config.describe();
    }
    ++counts_.mixes;
    counts_.preemptions += together.stats.num_preemptions;
    counts_.cached += together.stats.num_cached_tokens;
    counts_.accepted += together.stats.num_accepted;
    counts_.rejected += together.stats.num_drafts - together.stats.num_accepted;
    counts_.replays += together.stats.num_graph_replays;
    counts_.swaps += together.swaps.made;
    counts_.recomputed += together.swaps.recomputed;
    counts_.verified += together.swaps.verified;
  }

  struct Counts {
    std::uint64_t mixes = 0, preemptions = 0, cached = 0, accepted = 0, rejected = 0, replays = 0;
    int swaps = 0, recomputed = 0, verified = 0;
  };
  Counts counts_;

  static inline const bool cuda_ = variable("MORTISE_PROPERTY_DEVICE") == "cuda";
  static inline const bool large_ = variable_or("MORTISE_PROPERTY_160M", 0) != 0;
  static inline std::optional<TempFolder> folder_;
  static inline std::vector<RandomModel> models_;
  static inline std::vector<std::filesystem::path> draft_models_;
};

TEST_P(Exactness, EveryRequestGetsTheBitsThatItGetsAlone) {
  const int num_mixes = variable_or("MORTISE_PROPERTY_MIXES", 200);
  const int base_seed = variable_or("MORTISE_PROPERTY_SEED", 1);
  ASSERT_GT(num_mixes, 0) << "MORTISE_PROPERTY_MIXES is no number of mixes";
  const std::vector<std::string> isas = cuda_ ? gpu_isas() : machine_isas(/*fast_only=*/large_);
  for (int mix = GetParam(); mix < num_mixes; mix += kShards) {
    std::mt19937 random(static_cast<std::uint32_t>(base_seed * 100000 + mix));
    const RandomModel& model = models_[static_cast<std::size_t>(mix / kShards) % models_.size()];
    const bool demo = model.name == "demo";
    const std::vector<Request> requests = draw_requests(random, model.vocab_size, demo ? 300 : 1800, demo ? 700 : 5000);
    const RunConfig config = draw_config_for(model, isas, random);
    run_mix(fmt::format("mix {} of seed {}", mix, base_seed), model, config, requests, other_isa(config, isas, random));
  }
  // One more, in which everything happens that the others are to show, on the last instruction set beside the first.
  std::mt19937 random(static_cast<std::uint32_t>(base_seed * 100000 - 1 - GetParam()));
  const RandomModel& model = models_[static_cast<std::size_t>(GetParam()) % models_.size()];
  const std::vector<Request> requests = draw_contended_requests(random, model.vocab_size);
  RunConfig config = draw_config_for(model, isas, random);
  make_contended(config);
  config.isa = isas.back();
  run_mix(fmt::format("contended mix {} of seed {}", GetParam(), base_seed), model, config, requests, isas.front());

  // Whether a swap meets sequences that must be computed anew depends on timing, so there are up to four of these.
  constexpr int kMostSwapped = 4;
  for (int i = 0; i == 0 || (i < kMostSwapped && counts_.recomputed == 0); ++i) {
    std::mt19937 swaps(static_cast<std::uint32_t>(base_seed * 100000 - 101 - GetParam() - kShards * i));
    const std::vector<Request> swapped = draw_contended_requests(swaps, model.vocab_size);
    config = draw_config_for(model, isas, swaps);
    make_swapped(config);
    run_mix(fmt::format("swapped mix {} of seed {}", GetParam() + kShards * i, base_seed), model, config, swapped,
            other_isa(config, isas, swaps));
  }

  fmt::print(
      "{} mixes, {} preemptions, {} accepted and {} rejected drafts, {} cached tokens, {} replayed graphs, {} swaps "
      "({} verified), {} sequences that these computed anew\n",
      counts_.mixes, counts_.preemptions, counts_.accepted, counts_.rejected, counts_.cached, counts_.replays,
      counts_.swaps, counts_.verified, counts_.recomputed);
  // 0: equal bits say nothing about what never happened.
  EXPECT_GT(counts_.preemptions, 0u);
  EXPECT_GT(counts_.cached, 0u);
  EXPECT_GT(counts_.accepted, 0u);
  EXPECT_GT(counts_.rejected, 0u);
  EXPECT_GT(counts_.swaps, 0);
  EXPECT_GT(counts_.recomputed, 0);
  if (cuda_) {  // the CPU has no graphs; the device of remote_device_test.cpp has
    EXPECT_GT(counts_.replays, 0u);
  }
}

// Else the mixes would run cascade as if nothing were shared, and find nothing wrong with it.
TEST(Cascade, ItsPipelinesTellPrefixGroups) {
  const auto folder = std::filesystem::path(MORTISE_SOURCE_DIR) / "models" / "demo";
  RunConfig config;
  EXPECT_FALSE(open_assembly(folder, config)->parts().prefix_groups);
  config.attention = "cascade";
  EXPECT_TRUE(open_assembly(folder, config)->parts().prefix_groups);
}

INSTANTIATE_TEST_SUITE_P(Mixes, Exactness, ::testing::Range(0, kShards));

}  // namespace
}  // namespace mortise::test
