// thread_pool.hpp: the threads that a CPU device computes on.
// A small model makes tens of calls per token, so handing out work has to cost about a microsecond: workers that have
// just finished look for more for a while before they sleep. An idle pool sleeps and uses no CPU.
// Each thread begins with a share of its own, the same for the same number of tasks, so that what it reads is still in
// its cache from the last call; who is done early takes from the others. What a task computes must not depend on who
// runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace mortise::cpu {

class ThreadPool {
 public:
  using Task = void (*)(void* context, std::int32_t task, std::int32_t thread);

  // Starts num_threads - 1 threads; the caller of run() is the other one. REQUIRES: num_threads >= 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();  // Joins all of them. REQUIRES: no run() is under way.
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(context, i, thread) for 0 <= i < num_tasks and returns when all have returned. `thread` is 0 for the
  // caller and below num_threads(). Tasks run with denormals off. REQUIRES: one run() at a time, none from a task.
  void run(std::int32_t num_tasks, Task task, void* context);

  // The same for a callable f(task, thread).
  template <typename F>
  void for_each(std::int32_t num_tasks, F&& f) {
    run(
        num_tasks, [](void* context, std::int32_t i, std::int32_t thread) { (*static_cast<F*>(context))(i, thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  // The tasks begin .. end - 1 of which those from `next` on are still to be taken.
  struct alignas(64) Share {
    std::atomic<std::int32_t> next{0};
    std::int32_t end = 0;
  };

  void stop();
  void work(std::int32_t thread);
  void take_tasks(std::int32_t thread);
  void wait_for_work(std::uint32_t seen_generation);

  // The job. run() writes it only while `open_` is false and `active_` 0; a worker reads it only after it has counted
  // itself in `active_` and then found `open_` true. So it cannot change under a reader, and when run() has closed it
  // and sees active_ = 0, all tasks are done.
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<Share[]> shares_;  // one per thread

  alignas(64) std::atomic<bool> open_{false};
  alignas(64) std::atomic<std::int32_t> active_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // what sleeping workers wait on; kStop ends them
  std::vector<std::jthread> workers_;
};

}  // namespace mortise::cpu
