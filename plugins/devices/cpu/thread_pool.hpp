// thread_pool.hpp: the threads that a CPU device computes on.
// A small model makes tens of calls per token, so handing out work has to cost well below a microsecond: workers that
// have just finished look for more for a while before they sleep. An idle pool sleeps and uses no CPU. No more threads
// are kept awake than there are processors, and who waits for long lets others run: a pool that is too large, or a
// machine that others use too, costs little.
// Each thread begins with a share of its own, the same for the same number of tasks, so that what it reads is still in
// its cache from the last call; who is done early takes from the others. What a task computes must not depend on who
// runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace mortise::cpu {

class ThreadPool {
 public:
  using Task = void (*)(void* context, std::int32_t task, std::int32_t thread);

  // Starts num_threads - 1 threads; the caller of run() is the other one. Keeps at most `num_processors` of all awake
  // between two runs. REQUIRES: both at least 1.
  ThreadPool(int num_threads, int num_processors);
  ~ThreadPool();  // Joins all of them. REQUIRES: no run() is under way.
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls task(context, i, thread) for 0 <= i < num_tasks and returns when all have returned. `thread` is 0 for the
  // caller and below num_threads(). Tasks run with denormals off; one that throws ends the process. One task, and a run
  // that a task of this pool makes, stay on the thread that calls. REQUIRES: one run() at a time but for the latter.
  void run(std::int32_t num_tasks, Task task, void* context);

  // The same for a callable f(task, thread).
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
  // A thread's tasks of the current job, and all that a thread needs to know of it: on one line, because the time that
  // a line takes from one core to another is what a small job costs. Whoever takes a ticket below its end holds up the
  // job, so `task` and `context` stay as they are until it has counted that task in done_. Nobody else reads them.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> tickets{0};     // (next task << 32) + end; taking a ticket adds 1 << 32
    std::atomic<std::uint32_t> generation{0};  // what its thread looks at: each job changes it, kStop ends the thread
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
  std::uint32_t generation_ = 0;     // of the last job; the caller's
  const std::int32_t num_threads_, num_processors_;

  // Tasks of this job that workers have done; the caller looks at it, and sleeps on it after it has said so.
  alignas(64) std::atomic<std::uint32_t> done_{0};
  std::atomic<bool> caller_sleeps_{false};

  alignas(64) std::atomic<std::int32_t> sleeping_workers_{0};  // that sleep, or are about to
  std::atomic<std::uint32_t> calls_{0};                        // what they sleep on
  std::vector<std::jthread> workers_;
};

}  // namespace mortise::cpu
