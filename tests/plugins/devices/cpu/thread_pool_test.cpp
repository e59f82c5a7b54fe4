#include "devices/cpu/thread_pool.hpp"

#include <atomic>
#include <numeric>

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int tasks : {0, 1, 2, 7, 100, 5000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      pool.for_each(tasks, [&](std::int32_t i, std::int32_t) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1) << threads << " " << tasks;
    }
  }
}

TEST(ThreadPool, ManySmallRunsNeitherLoseNorRepeatATask) {
  ThreadPool pool(4);
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum{0};
  for (int run = 0; run < 20000; ++run) {
    const std::int32_t tasks = run % 7;
    pool.for_each(tasks, [&](std::int32_t i, std::int32_t) { sum += i + run; });
    for (std::int32_t i = 0; i < tasks; ++i) expected += i + run;
    ASSERT_EQ(sum, expected) << run;  // less: run() returned before its tasks did
  }
}

// A task sees what run()'s caller wrote before, and the caller what the tasks wrote, without atomics.
TEST(ThreadPool, RunsAreOrderedWithTheCallersMemory) {
  ThreadPool pool(3);
  std::vector<std::int64_t> values(64);
  for (int run = 0; run < 3000; ++run) {
    for (std::int64_t& v : values) v += 1;
    pool.for_each(64, [&](std::int32_t i, std::int32_t) { values[static_cast<std::size_t>(i)] += 2; });
    for (const std::int64_t v : values) ASSERT_EQ(v, 3 * (run + 1));
  }
}

TEST(ThreadPool, NoTwoTasksHaveOneThreadNumberAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes{0};
  for (int run = 0; run < 500; ++run) {
    pool.for_each(32, [&](std::int32_t, std::int32_t thread) {
      if (busy[static_cast<std::size_t>(thread)]++ != 0) ++clashes;
      --busy[static_cast<std::size_t>(thread)];
    });
  }
  EXPECT_EQ(clashes, 0);
}

TEST(ThreadPool, EndsWhileItsWorkersSpinOrSleepOrNeverWorked) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(3);
    if (i % 2 == 0) pool.for_each(3, [](std::int32_t, std::int32_t) {});
  }
}

TEST(ThreadPool, TasksRunWithDenormalsOffAndTheCallerGetsItsModeBack) {
#if defined(__x86_64__)
  ThreadPool pool(2);
  volatile float denormal = 1e-40f;
  std::atomic<int> kept{0};
  for (const int tasks : {1, 64}) {
    pool.for_each(tasks, [&](std::int32_t, std::int32_t) {
      if (denormal * 2.0f != 0.0f) ++kept;
    });
  }
  EXPECT_EQ(kept, 0);
  EXPECT_NE(denormal * 2.0f, 0.0f);
#endif
}

TEST(ThreadPool, IsThePoolOfTheParallelExtension) {
  Device device(available_isas().back(), 3);
  EXPECT_EQ(device.parallel().num_threads(device.get()), 3);
  EXPECT_STREQ(device.parallel().isa(device.get()), isa_name(available_isas().back()));
  std::atomic<int> sum{0};
  const mortise_task task = [](void* context, int32_t i, int32_t thread) {
    EXPECT_LT(thread, 3);
    *static_cast<std::atomic<int>*>(context) += i;
  };
  device.parallel().run(device.get(), 101, task, &sum);
  EXPECT_EQ(sum, 5050);
}

}  // namespace
}  // namespace mortise::cpu
