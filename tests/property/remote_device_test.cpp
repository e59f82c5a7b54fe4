// Mixes on a device whose memory the host cannot touch, that runs nothing before the host waits, and that captures
// graphs (remote/README.md): every request gets the bits that it gets alone on the CPU. A host access to device memory
// ends the program here; a buffer that is reused too early, a padding row that is read or a graph that is replayed
// wrongly shows in the bits.
// Covers: runtime/execution/device_memory
#include <gmock/gmock.h>

#include <cstdlib>

#include "difference.hpp"
#include "mix.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise::test {
namespace {

TEST(RemoteDevice, RequestsGetTheBitsOfTheCpu) {
  const TempFolder folder;
  const std::vector<RandomModel> models = write_random_models(folder.path());
  std::uint64_t replays = 0, preemptions = 0, accepted = 0, rejected = 0, cached = 0;
  constexpr int kMixes = 12;
  for (int mix = 0; mix < kMixes; ++mix) {
    std::mt19937 random(static_cast<std::uint32_t>(700 + mix));
    const RandomModel& model = models[static_cast<std::size_t>(mix) % models.size()];
    const std::vector<Request> requests = draw_requests(random, model.vocab_size, 400, 1200);
    RunConfig config = draw_config(random, {machine_isas(true).back()}, {model.folder, models.front().folder});
    config.weights = "auto";
    config.numerics = "auto";  // as the remote device has it
    const Outcomes alone = run_alone(model.folder, config.isa, requests, config);
    config.device = "remote";
    config.attention = "paged";
    const RunReport together = run_together(model.folder, config, requests, &alone);
    EXPECT_EQ(difference(together.outcomes, alone), "")
        << "mix " << mix << ", " << model.name << ": " << config.describe();
    if (config.twice) {
      EXPECT_EQ(difference(together.again, alone), "") << "mix " << mix << ", the second time";
    }
    replays += together.stats.num_graph_replays;
    preemptions += together.stats.num_preemptions;
    accepted += together.stats.num_accepted;
    rejected += together.stats.num_drafts - together.stats.num_accepted;
    cached += together.stats.num_cached_tokens;
  }
  EXPECT_GT(replays, 100u);
  EXPECT_GT(preemptions, 0u);
  EXPECT_GT(accepted, 0u);  // 0: no verify step was among what was replayed
  EXPECT_GT(rejected, 0u);
  EXPECT_GT(cached, 0u);
}

TEST(RemoteDevice, AnAttentionWithoutMultiQueryRowsVerifiesDraftsAsSingleRows) {
  RunConfig config;
  config.device = "remote";
  const auto folder = std::filesystem::path(MORTISE_SOURCE_DIR) / "models" / "demo";
  EXPECT_FALSE(open_assembly(folder, config)->limits().batch_expansion);
  config.attention = "paged_single";
  EXPECT_TRUE(open_assembly(folder, config)->limits().batch_expansion);

  config.draft_percent = 80;
  std::mt19937 random(31);
  const std::vector<Request> requests = draw_requests(random, 4000, 200, 500);
  const Outcomes alone = run_alone(folder, "auto", requests);
  const RunReport together = run_together(folder, config, requests, &alone);
  EXPECT_EQ(difference(together.outcomes, alone), "");
  EXPECT_GT(together.stats.num_accepted, 0u);
}

// Returns the error when the demo model's KV cache is to fill a device with this many free bytes; "": there is none.
std::string failure_with(std::uint64_t free_bytes) {
  const ScopedVariable free("MORTISE_REMOTE_FREE", std::to_string(free_bytes));
  RunConfig config;
  config.device = "remote";
  config.kv_memory = "auto";
  std::string text;
  try {
    open_assembly(MORTISE_SOURCE_DIR "/models/demo", config);
  } catch (const std::exception& exception) {
    text = exception.what();
  }
  return text;
}

TEST(RemoteDevice, AKvCacheThatDoesNotFitIsToldWithTheNumbers) {
  using ::testing::HasSubstr;
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  // One gibibyte is free, and all of it is kept for workspaces.
  EXPECT_THAT(failure_with(kGib), HasSubstr("1.0 GiB of them are kept for workspaces: no KV block of "));
  // The device has fewer addresses than that, so allocating the cache fails. The sizes follow its own message.
  EXPECT_THAT(failure_with(100 * kGib), HasSubstr(" GiB of KV cache beside "));
  EXPECT_THAT(failure_with(100 * kGib),
              HasSubstr("; kv_cache.memory = \"auto\" uses all free memory; set it to a smaller size"));
  EXPECT_EQ(failure_with(kGib + kGib / 2), "");
}

}  // namespace
}  // namespace mortise::test
