// Mixes on a device whose memory the host cannot touch, that runs nothing before the host waits, and that captures graphs
// (remote/README.md): every request gets the bits that it gets alone on the CPU. A host access to device memory ends the
// program here; a buffer that is reused too early, a padding row that is read or a graph that is replayed wrongly shows
// in the bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include "difference.hpp"
#include "mix.hpp"
#include "random_model.hpp"

namespace mortise::test {
namespace {

TEST(RemoteDevice, RequestsGetTheBitsOfTheCpu) {
  const auto folder = std::filesystem::temp_directory_path() / ("mortise-remote-" + std::to_string(getpid()));
  const std::vector<RandomModel> models = write_random_models(folder);
  std::uint64_t replays = 0, preemptions = 0, accepted = 0;
  constexpr int kMixes = 12;
  for (int mix = 0; mix < kMixes; ++mix) {
    std::mt19937 random(static_cast<std::uint32_t>(700 + mix));
    const RandomModel& model = models[static_cast<std::size_t>(mix) % models.size()];
    const std::vector<Request> requests = draw_requests(random, model.vocab_size, 400, 1200);
    RunConfig config = draw_config(random, {machine_isas(true).back()});
    config.weights = "auto";
    const Outcomes alone = run_alone(model.folder, config.isa, requests, config);
    config.device = "remote";
    const RunReport together = run_together(model.folder, config, requests, &alone);
    EXPECT_EQ(difference(together.outcomes, alone), "") << "mix " << mix << ", " << model.name << ": " << config.describe();
    if (config.twice) {
      EXPECT_EQ(difference(together.again, alone), "") << "mix " << mix << ", the second time";
    }
    replays += together.stats.num_graph_replays;
    preemptions += together.stats.num_preemptions;
    accepted += together.stats.num_accepted_tokens;
  }
  EXPECT_GT(replays, 100u);
  EXPECT_GT(preemptions, 0u);
  EXPECT_GT(accepted, 0u);  // 0: no verify step was among what was replayed
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mortise::test
