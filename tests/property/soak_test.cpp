// A long life: many requests of every kind, many of them aborted at any moment, in a cache that is always short. No
// block is lost, the proposer keeps nothing of those that ended, and memory stays flat. MORTISE_SOAK_REQUESTS (default
// 20000) makes longer runs.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "mix.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"
#include "variables.hpp"

namespace mortise::test {
namespace {

constexpr int kMaxInFlight = 48;
constexpr int kWarmUp = 2000;
// Room for what the allocator keeps; a leak of a request's state would be 18,000 times that state.
constexpr std::int64_t kFlatBytes = std::int64_t{6} << 20;

std::int64_t resident_bytes() {
  malloc_trim(0);
  std::int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Counts what runs and ends; aborts are decided here, in the middle of a request's news.
class Traffic {
 public:
  Sink sink(int choices) {
    const std::lock_guard lock(mutex_);
    ++open_;
    return [this, left = std::make_shared<int>(choices)](const Delta& delta) {
      if (delta.finish == FinishReason::kNone) return;
      const std::lock_guard lock(mutex_);
      ++finished_[delta.finish];
      if (--*left > 0) return;
      --open_;
      changed_.notify_all();
    };
  }
  void wait_for_at_most(int open) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ <= open; });
  }
  int count(FinishReason reason) {
    const std::lock_guard lock(mutex_);
    return finished_[reason];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
  std::map<FinishReason, int> finished_;
};

// Sanitizers keep freed memory, and shadow memory of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;
#else
constexpr bool kMemoryIsOurs = true;
#endif

TEST(Soak, ManyRequestsAndAbortsLoseNoBlockAndNoMemory) {
  const int num_requests = variable_or("MORTISE_SOAK_REQUESTS", 20000);
  ASSERT_GT(num_requests, kWarmUp);
  const TempFolder folder;
  const RandomModel model = write_random_models(folder.path()).front();
  {
    const std::unique_ptr<Assembly> assembly =
        open_assembly(model.folder, {.threads = 1, .max_num_seqs = 16, .proposer = "ngram { min_match = 1 }"});
    EngineLimits limits = assembly->limits();
    limits.num_blocks = 60;
    Engine engine(assembly->parts(), limits, assembly->model_info(), assembly->tokenizer());
    Traffic traffic;
    std::mt19937 random(5);
    std::vector<Request> templates;
    while (templates.size() < 400) {
      for (Request& request : draw_requests(random, model.vocab_size, 300, 600)) {
        request.sampling.max_tokens = std::min(request.sampling.max_tokens, 12);
        request.sampling.min_tokens = std::min(request.sampling.min_tokens, request.sampling.max_tokens);
        templates.push_back(std::move(request));
      }
    }
    std::vector<RequestId> recent;
    std::int64_t warm = 0;
    std::uint64_t most_kept = 0;
    for (int i = 0; i < num_requests; ++i) {
      if (i == kWarmUp) {
        traffic.wait_for_at_most(0);
        warm = resident_bytes();
      }
      traffic.wait_for_at_most(kMaxInFlight - 1);
      most_kept = std::max(most_kept, engine.stats().num_proposer_sequences);
      const Request& request = templates[random() % templates.size()];
      recent.push_back(engine.submit(request, traffic.sink(request.sampling.n)));
      if (random() % 4 == 0)
        engine.abort(recent[recent.size() - 1 - random() % std::min<std::size_t>(recent.size(), 20)]);
    }
    traffic.wait_for_at_most(0);
    recent = {};
    const std::int64_t end = resident_bytes();
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, limits.num_blocks);  // less: a block is lost
    EXPECT_EQ(stats.num_proposer_sequences, 0u);  // more: it keeps something of sequences that ended
    EXPECT_GT(most_kept, 4u) << "the proposer says nothing of what it keeps";
    EXPECT_GT(stats.num_accepted, 0u);
    EXPECT_EQ(traffic.count(FinishReason::kError), 0);
    EXPECT_GT(traffic.count(FinishReason::kAborted), num_requests / 20) << "the aborts came too late";
    EXPECT_GT(stats.num_preemptions, 0u);
    EXPECT_GT(stats.num_cached_tokens, 0u);
    if (kMemoryIsOurs) {
      EXPECT_LE(end - warm, kFlatBytes) << "from " << warm << " to " << end << " bytes";
    }
    fmt::print("{} requests, {} aborted choices, {} preemptions, {} evicted blocks; {:.1f} MB then {:.1f} MB\n",
               num_requests, traffic.count(FinishReason::kAborted), stats.num_preemptions, stats.num_evicted_blocks,
               static_cast<double>(warm) / 1e6, static_cast<double>(end) / 1e6);
  }
}

}  // namespace
}  // namespace mortise::test
