// The promise as a property: random mixes, run together in random ways, give every request the bits that it gets alone
// on another instruction set without prefix cache. MORTISE_PROPERTY_MIXES (default 200) and MORTISE_PROPERTY_SEED make
// longer and other runs, MORTISE_PROPERTY_160M=1 runs a model of 160 million parameters in place of the small ones; a
// failure prints the seed of its mix.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>

#include "mix.hpp"
#include "random_model.hpp"

namespace mortise::test {
namespace {

// The mixes are dealt to so many test cases, which ctest runs beside each other.
constexpr int kShards = 8;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// The first difference between two lists, or "".
std::string difference(const std::vector<TokenInfo>& a, const std::vector<TokenInfo>& b, const char* what) {
  if (a.size() != b.size()) {
    return std::string(what) + ": " + std::to_string(a.size()) + " tokens instead of " + std::to_string(b.size());
  }
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::string at = std::string(what) + " " + std::to_string(i) + ": ";
    if (a[i].id != b[i].id) return at + "token " + std::to_string(a[i].id) + " instead of " + std::to_string(b[i].id);
    if (bits(a[i].logprob) != bits(b[i].logprob)) return at + "another log probability";
    if (a[i].rank != b[i].rank) return at + "another rank";
    if (a[i].top.size() != b[i].top.size()) return at + "another number of alternatives";
    for (std::size_t j = 0; j < a[i].top.size(); ++j) {
      if (a[i].top[j].first != b[i].top[j].first || bits(a[i].top[j].second) != bits(b[i].top[j].second)) {
        return at + "another alternative " + std::to_string(j);
      }
    }
  }
  return "";
}

std::string difference(const Outcomes& together, const Outcomes& alone) {
  if (together.size() != alone.size()) return "another number of choices";
  for (const auto& [key, expected] : alone) {
    const ChoiceOutcome& got = together.at(key);
    std::string text = difference(got.tokens, expected.tokens, "token");
    if (text.empty()) text = difference(got.prompt, expected.prompt, "prompt score");
    if (text.empty() && got.text != expected.text) text = "another text";
    if (text.empty() && got.finish != expected.finish) text = "another finish reason";
    if (!text.empty())
      return "request " + std::to_string(key.first) + " choice " + std::to_string(key.second) + ": " + text;
  }
  return "";
}

class Exactness : public ::testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("mortise-property-" + std::to_string(getpid()));
    if (large_) {
      models_ = {write_large_model(folder_)};
      return;
    }
    models_ = write_random_models(folder_);
    models_.push_back({"demo", 4096, MORTISE_SOURCE_DIR "/models/demo"});
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static inline const bool large_ = from_environment("MORTISE_PROPERTY_160M", 0) != 0;
  static inline std::filesystem::path folder_;
  static inline std::vector<RandomModel> models_;
};

TEST_P(Exactness, EveryRequestGetsTheBitsThatItGetsAlone) {
  const int num_mixes = from_environment("MORTISE_PROPERTY_MIXES", 200);
  const int base_seed = from_environment("MORTISE_PROPERTY_SEED", 1);
  const std::vector<std::string> isas = machine_isas(/*fast_only=*/large_);
  std::uint64_t preemptions = 0, accepted = 0, cached = 0, mixes = 0;
  for (int mix = GetParam(); mix < num_mixes; mix += kShards) {
    const int seed = base_seed * 100000 + mix;
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const RandomModel& model = models_[static_cast<std::size_t>(mix / kShards) % models_.size()];
    const bool demo = model.name == "demo";
    const std::vector<Request> requests = draw_requests(random, model.vocab_size, demo ? 300 : 1800, demo ? 700 : 5000);
    const RunConfig config = draw_config(random, isas);
    std::string other = isas[random() % isas.size()];
    if (other == config.isa) other = isas[(random() % isas.size() + 1) % isas.size()];
    const Outcomes alone = run_alone(model.folder, other, requests, config);
    const RunReport together = run_together(model.folder, config, requests, &alone);
    EXPECT_EQ(difference(together.outcomes, alone), "")
        << "mix " << mix << " of seed " << base_seed << ", model " << model.name << ", " << requests.size()
        << " requests, alone on " << other << "; together: " << config.describe();
    if (config.twice) {
      EXPECT_EQ(difference(together.again, alone), "") << "mix " << mix << ", the second time: " << config.describe();
    }
    EXPECT_EQ(together.stats.num_free_blocks + together.stats.num_cached_blocks, together.stats.num_blocks)
        << "mix " << mix << ": a block is lost";
    EXPECT_EQ(together.stats.num_rejected_plans, 0u) << "the schedulers of this test make valid plans";
    preemptions += together.stats.num_preemptions;
    accepted += together.stats.num_accepted_tokens;
    cached += together.stats.num_cached_tokens;
    ++mixes;
  }
  fmt::print("{} mixes, {} preemptions, {} accepted drafts, {} cached tokens\n", mixes, preemptions, accepted, cached);
}

INSTANTIATE_TEST_SUITE_P(Mixes, Exactness, ::testing::Range(0, kShards));

}  // namespace
}  // namespace mortise::test
