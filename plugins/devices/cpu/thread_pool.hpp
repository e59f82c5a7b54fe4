// thread_pool.hpp: the threads that a CPU device computes on.
// A small model makes tens of calls per token, so handing out work has to cost about a microsecond: workers that have
// just finished look for more for a while before they sleep. An idle pool sleeps and uses no CPU.
// Tasks are handed out one by one in no fixed order; what they compute must not depend on who runs them.
#pragma once

#include <atomic>
#include <cstdint>
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
  void work(std::int32_t thread);
  std::int32_t take_tasks(std::int32_t thread);
  void wait_for_work(std::uint32_t seen_generation);

  // The job, written by run() before it publishes `open_`. A thread reads it only after it has taken a task from
  // `open_`, and run() returns only when every task taken is done: so the job cannot change under a reader.
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::int32_t num_tasks_ = 0;

  alignas(64) std::atomic<std::uint64_t> open_{0};        // generation of the job << 32 | tasks not yet taken
  alignas(64) std::atomic<std::int32_t> done_{0};         // tasks finished
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // what sleeping workers wait on; kStop ends them
  std::vector<std::jthread> workers_;
};

}  // namespace mortise::cpu
