#include "devices/cpu/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/cpu/isa.hpp"

namespace mortise::cpu {
namespace {

// How long a waiting thread spins: longer than the engine works between two calls of a step, but too short to show as
// load on an idle machine.
constexpr auto kSpin = std::chrono::microseconds(100);
// After this long a waiting thread yields its processor in every round. On a quiet machine no other thread takes it; on
// a busy one it may go to the thread that this one waits for.
constexpr auto kSpinAlone = std::chrono::microseconds(50);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most processors; this takes about as long as x86's pause
#endif
}

// The pool whose task this thread runs, and the thread's number in that pool. thread_local, because a run() inside a
// task must find it, and kernels do not pass it on.
struct Inside {
  const ThreadPool* pool = nullptr;
  std::int32_t thread = 0;
};
thread_local Inside inside;

}  // namespace

ThreadPool::ThreadPool(int num_threads, int num_processors)
    : shares_(std::make_unique<Share[]>(static_cast<std::size_t>(num_threads))),
      num_threads_(num_threads),
      num_processors_(num_processors) {
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {  // no more threads: those that started must end before their members are destroyed
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  for (std::size_t i = 1; i <= workers_.size(); ++i) shares_[i].generation.store(kStop, std::memory_order_release);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
}

void ThreadPool::run(std::int32_t num_tasks, Task task, void* context) {
  const DenormalsOff denormals_off;
  const bool nested = inside.pool == this;
  if (num_tasks <= 1 || workers_.empty() || nested) {
    for (std::int32_t i = 0; i < num_tasks; ++i) task(context, i, nested ? inside.thread : 0);
    return;
  }
  publish(num_tasks, task, context);
  wake_workers(num_tasks);
  std::uint32_t own = 0;
  for (std::int32_t i = 0; i < num_threads_; ++i) own += take_tasks(shares_[static_cast<std::size_t>(i)], 0);
  wait_for_workers(static_cast<std::uint32_t>(num_tasks) - own);
}

// All tasks of the last job have been counted, so no worker reads these fields before the store of its tickets
// publishes them.
void ThreadPool::publish(std::int32_t num_tasks, Task task, void* context) {
  done_.store(0, std::memory_order_relaxed);
  if (++generation_ == kStop) generation_ = 0;
  for (std::int32_t i = 0; i < num_threads_; ++i) {
    const auto boundary = [&](std::int64_t j) { return static_cast<std::uint64_t>(num_tasks * j / num_threads_); };
    Share& share = shares_[static_cast<std::size_t>(i)];
    share.task = task;
    share.context = context;
    share.tickets.store(boundary(i) << 32 | boundary(i + 1), std::memory_order_release);
    share.generation.store(generation_, std::memory_order_release);
  }
}

// Spinning workers see the new generation. Wakes sleeping workers until as many threads are awake as there are tasks
// and processors. A worker that goes to sleep first increments sleeping_workers_ and then looks once more; the caller
// reads by adding 0. Whichever comes first is seen by the other side, so no wake-up is lost.
void ThreadPool::wake_workers(std::int32_t num_tasks) {
  const std::int32_t sleeping = sleeping_workers_.fetch_add(0, std::memory_order_acq_rel);
  if (sleeping == 0) return;
  const std::int32_t awake = num_threads_ - 1 - sleeping;
  const std::int32_t wanted = std::min(num_tasks, num_processors_) - 1 - awake;
  if (wanted <= 0) return;
  calls_.fetch_add(1, std::memory_order_release);
  if (wanted >= sleeping) return calls_.notify_all();
  for (std::int32_t i = 0; i < wanted; ++i) calls_.notify_one();
}

// Runs the remaining tasks of a share and returns their number. A ticket beyond the end is harmless: the next job
// overwrites the tickets.
std::uint32_t ThreadPool::take_tasks(Share& share, std::int32_t thread) noexcept {
  const Inside outside = std::exchange(inside, {this, thread});
  std::uint32_t taken = 0;
  const auto left = [](std::uint64_t tickets) { return (tickets >> 32) < (tickets & 0xffffffffu); };
  while (left(share.tickets.load(std::memory_order_relaxed))) {
    const std::uint64_t ticket = share.tickets.fetch_add(std::uint64_t{1} << 32, std::memory_order_acquire);
    if (!left(ticket)) break;
    share.task(share.context, static_cast<std::int32_t>(ticket >> 32), thread);
    ++taken;
  }
  inside = outside;
  return taken;
}

void ThreadPool::work(std::int32_t thread) {
  const DenormalsOff denormals_off;
  Share& own = shares_[static_cast<std::size_t>(thread)];
  for (std::uint32_t generation = 0;;) {
    wait_for_work(own, generation);
    generation = own.generation.load(std::memory_order_acquire);
    if (generation == kStop) return;
    for (std::int32_t i = 0; i < num_threads_; ++i) {
      report(take_tasks(shares_[static_cast<std::size_t>((thread + i) % num_threads_)], thread));
    }
  }
}

// Sequentially consistent with wait_for_workers: either the caller sees these tasks, or this thread sees that the
// caller sleeps.
void ThreadPool::report(std::uint32_t num_tasks) {
  if (num_tasks == 0) return;
  done_.fetch_add(num_tasks, std::memory_order_seq_cst);
  if (caller_sleeps_.load(std::memory_order_seq_cst)) done_.notify_one();
}

void ThreadPool::wait_for_workers(std::uint32_t num_tasks) {
  if (spin_until([&] { return done_.load(std::memory_order_acquire) == num_tasks; })) return;
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  for (std::uint32_t done; (done = done_.load(std::memory_order_seq_cst)) != num_tasks;) done_.wait(done);
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void ThreadPool::wait_for_work(const Share& own, std::uint32_t seen_generation) {
  const auto changed = [&] { return own.generation.load(std::memory_order_relaxed) != seen_generation; };
  if (spin_until(changed)) return;
  const std::uint32_t calls = calls_.load(std::memory_order_acquire);
  sleeping_workers_.fetch_add(1, std::memory_order_acq_rel);
  if (!changed()) calls_.wait(calls, std::memory_order_acquire);
  sleeping_workers_.fetch_sub(1, std::memory_order_release);
}

bool ThreadPool::crowded() const {
  return num_threads_ - sleeping_workers_.load(std::memory_order_relaxed) > num_processors_;
}

// Calls `ready` until it returns true, kSpin has passed, or more threads are awake than there are processors.
template <typename Ready>
bool ThreadPool::spin_until(Ready ready) const {
  const auto begin = std::chrono::steady_clock::now();
  for (std::chrono::nanoseconds waited{0}; waited < kSpin; waited = std::chrono::steady_clock::now() - begin) {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      if (waited >= kSpinAlone) break;
      pause();
    }
    if (crowded()) return ready();
    if (waited >= kSpinAlone) sched_yield();
  }
  return ready();
}

}  // namespace mortise::cpu
