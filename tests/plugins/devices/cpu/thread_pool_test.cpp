#include "devices/cpu/thread_pool.hpp"

#include <time.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

constexpr int kProcessors = 4;  // as many threads may be awake, whatever machine this is

void busy_wait(std::chrono::microseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, kProcessors);
    for (const int tasks : {0, 1, 2, 7, 100, 5000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
      pool.for_each(tasks, [&](std::int32_t i, std::int32_t) { ++runs[static_cast<std::size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1) << threads << " " << tasks;
    }
  }
}

TEST(ThreadPool, ManySmallRunsNeitherLoseNorRepeatATask) {
  ThreadPool pool(4, kProcessors);
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
  ThreadPool pool(3, kProcessors);
  std::vector<std::int64_t> values(64);
  for (int run = 0; run < 3000; ++run) {
    for (std::int64_t& v : values) v += 1;
    pool.for_each(64, [&](std::int32_t i, std::int32_t) { values[static_cast<std::size_t>(i)] += 2; });
    for (const std::int64_t v : values) ASSERT_EQ(v, 3 * (run + 1));
  }
}

TEST(ThreadPool, NoTwoTasksHaveOneThreadNumberAtATime) {
  ThreadPool pool(4, kProcessors);
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
  for (int i = 0; i < 300; ++i) {
    ThreadPool pool(3, kProcessors);
    if (i % 3 > 0) pool.for_each(3, [](std::int32_t, std::int32_t) {});
    if (i % 3 > 1) busy_wait(std::chrono::microseconds(2 * (i % 150)));  // about as long as workers spin
  }
}

// Two tasks that wait for each other need two threads at a time.
TEST(ThreadPool, WakesAWorkerThatSleepsOrIsAboutTo) {
  ThreadPool pool(2, kProcessors);
  for (int run = 0; run < 1500; ++run) {
    busy_wait(std::chrono::microseconds(run % 200));
    std::atomic<int> arrived{0};
    pool.for_each(2, [&](std::int32_t, std::int32_t) {
      for (++arrived; arrived < 2;) std::this_thread::yield();  // for ever: the wake-up was lost
    });
  }
}

TEST(ThreadPool, MoreThreadsThanProcessorsDoTheSame) {
  for (const int processors : {1, 2}) {
    ThreadPool pool(8, processors);
    std::int64_t expected = 0;
    std::atomic<std::int64_t> sum{0};
    for (int run = 0; run < 3000; ++run) {
      const std::int32_t tasks = 1 + run % 40;
      if (run % 300 == 0) busy_wait(std::chrono::microseconds(300));  // until they sleep
      pool.for_each(tasks, [&](std::int32_t i, std::int32_t thread) {
        EXPECT_LT(thread, 8);
        sum += i + run;
      });
      for (std::int32_t i = 0; i < tasks; ++i) expected += i + run;
      ASSERT_EQ(sum, expected) << processors << " " << run;
    }
  }
}

// The workers of the one pool wait while the other's work.
TEST(ThreadPool, TwoPoolsShareTheProcessors) {
  ThreadPool ours(3, 2);
  std::atomic<bool> over{false};
  std::jthread other([&] {
    ThreadPool theirs(3, 2);
    while (!over) theirs.for_each(6, [](std::int32_t, std::int32_t) {});
  });
  std::atomic<int> done{0};
  for (int run = 0; run < 2000; ++run) ours.for_each(6, [&](std::int32_t, std::int32_t) { ++done; });
  over = true;
  EXPECT_EQ(done, 12000);
}

TEST(ThreadPool, IdleItUsesNoProcessor) {
  ThreadPool pool(4, kProcessors);
  pool.for_each(64, [](std::int32_t, std::int32_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far longer than workers spin
  const auto processor_ms = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  };
  const double before = processor_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(processor_ms() - before, 20);  // 200 and more: somebody spins
}

TEST(ThreadPool, ARunFromATaskStaysOnItsThread) {
  ThreadPool pool(3, kProcessors);
  std::atomic<int> inner{0}, strangers{0};
  for (int run = 0; run < 200; ++run) {
    pool.for_each(9, [&](std::int32_t, std::int32_t thread) {
      pool.for_each(5, [&](std::int32_t, std::int32_t inner_thread) {
        ++inner;
        if (inner_thread != thread) ++strangers;
      });
    });
  }
  EXPECT_EQ(inner, 200 * 9 * 5);
  EXPECT_EQ(strangers, 0);  // else: two tasks with one thread's scratch
}

TEST(ThreadPoolDeathTest, ATaskThatThrowsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // One of them: two at once would end the process twice, and neither would be heard.
  const auto thrower = [](std::int32_t task, std::int32_t) {
    if (task == 0) throw std::runtime_error("a task must not throw");
  };
  EXPECT_DEATH(ThreadPool(2, kProcessors).for_each(2, thrower), "a task must not throw");
}

TEST(ThreadPool, TasksRunWithDenormalsOffAndTheCallerGetsItsModeBack) {
#if defined(__x86_64__)
  ThreadPool pool(2, kProcessors);
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
