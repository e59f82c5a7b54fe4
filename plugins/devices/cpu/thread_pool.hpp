// plugins/devices/cpu/thread_pool.hpp: the threads that a CPU device computes on. A small model makes tens of calls per
// token, so handing out work must cost well below a microsecond. Workers therefore look for more work for a while
// before they sleep. An idle pool sleeps and uses no CPU. At most as many threads stay awake as there are processors,
// and a thread that waits for long yields: a pool that is too large, or a busy machine, costs little. Each thread
// starts with its own share of the tasks, the same share for the same number of tasks, so that its data is still in its
// cache. A thread that finishes early takes tasks from the others. The result of a task must not depend on the thread
// that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace mortise::cpu {

// Invariant: a task of a run is executed exactly once, and no task runs before or after its run(). run() is called by
// one thread at a time.
class ThreadPool {
 public:
  using Task = void (*)(void* context, std::int32_t task, std::int32_t thread);

  // Starts num_threads - 1 threads; the thread that calls run() is the last one. At most `num_processors` threads stay
  // awake between two runs.
  // REQUIRES: both at least 1.
  ThreadPool(int num_threads, int num_processors);
  ~ThreadPool();  // Joins all threads. REQUIRES: no run() is active.
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls task(context, i, thread) for 0 <= i < num_tasks and returns when all calls have returned. `thread` is 0 for
  // the caller and below num_threads(). Tasks run with denormals off; a task that throws ends the process. A single
  // task runs on the calling thread, and so does a run() inside a task of this pool.
  // REQUIRES: one run() at a time, except inside tasks.
  void run(std::int32_t num_tasks, Task task, void* context);

  // Calls f(task, thread) for each task, as above.
  template <typename F>
  void for_each(std::int32_t num_tasks, F&& f) {
    run(
        num_tasks,
        [](void* context, std::int32_t i, std::int32_t thread) {
          (*static_cast<std::remove_reference_t<F>*>(context))(i, thread);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  // A thread's tasks in the current job, in one cache line: moving a line between cores is the main cost of a small
  // job. Whoever takes a ticket below the end keeps the job from completing, so `task` and `context` are valid until
  // that task is counted in done_.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> tickets{0};     // (next task << 32) + end; taking a ticket adds 1 << 32
    std::atomic<std::uint32_t> generation{0};  // the thread waits for a change: each job has a new value, kStop ends it
    Task task = nullptr;
    void* context = nullptr;
  };
  static constexpr std::uint32_t kStop = 0xffffffffu;

  void stop();
  void publish(std::int32_t num_tasks, Task task, void* context);
  void wake_workers(std::int32_t num_tasks);
  std::uint32_t take_tasks(Share& share, std::int32_t thread) noexcept;
  void work(std::int32_t thread);
  void report(std::uint32_t num_tasks);
  void wait_for_work(const Share& own, std::uint32_t seen_generation);
  void wait_for_workers(std::uint32_t num_tasks);
  bool crowded() const;
  template <typename Ready>
  bool spin_until(Ready ready) const;

  std::unique_ptr<Share[]> shares_;  // one per thread
  std::uint32_t generation_ = 0;     // of the last job; used by the caller alone
  const std::int32_t num_threads_, num_processors_;

  // Tasks of this job that workers have finished. The caller sleeps on it, after it has set caller_sleeps_.
  alignas(64) std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> caller_sleeps_{false};

  alignas(64) std::atomic<std::int32_t> sleeping_workers_{0};  // asleep, or about to be
  std::atomic<std::uint32_t> calls_{0};                        // the workers sleep on it
  std::vector<std::jthread> workers_;
};

}  // namespace mortise::cpu
