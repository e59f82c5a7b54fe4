#include "devices/cpu/thread_pool.hpp"

#include <chrono>

#include "kernels/cpu/isa.hpp"

namespace mortise::cpu {
namespace {

// Longer than the engine's own work between two calls of a step, shorter than what a person calls busy.
constexpr auto kSpin = std::chrono::microseconds(50);

constexpr std::uint32_t kStop = 0xffffffffu;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Calls `ready` until it is true or kSpin is over.
template <typename Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

std::uint32_t next_generation(std::uint32_t generation) {
  return generation + 1 == kStop ? 0 : generation + 1;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  generation_.store(kStop, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::run(std::int32_t num_tasks, Task task, void* context) {
  const DenormalsOff denormals_off;
  if (num_tasks <= 1 || workers_.empty()) {
    for (std::int32_t i = 0; i < num_tasks; ++i) task(context, i, 0);
    return;
  }
  task_ = task;
  context_ = context;
  num_tasks_ = num_tasks;
  done_.store(0, std::memory_order_relaxed);
  const std::uint32_t generation = next_generation(generation_.load(std::memory_order_relaxed));
  open_.store(static_cast<std::uint64_t>(generation) << 32 | static_cast<std::uint32_t>(num_tasks),
              std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();  // a load when nobody sleeps

  done_.fetch_add(take_tasks(0), std::memory_order_acq_rel);
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == num_tasks; };
  while (!spin_until(all_done)) {
    const std::int32_t seen = done_.load(std::memory_order_acquire);
    if (seen != num_tasks) done_.wait(seen, std::memory_order_acquire);
  }
}

// Runs open tasks until there are none; returns how many.
std::int32_t ThreadPool::take_tasks(std::int32_t thread) {
  std::int32_t taken = 0;
  std::uint64_t open = open_.load(std::memory_order_acquire);
  while (static_cast<std::uint32_t>(open) != 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    task_(context_, num_tasks_ - static_cast<std::int32_t>(static_cast<std::uint32_t>(open)), thread);
    ++taken;
    open = open_.load(std::memory_order_acquire);
  }
  return taken;
}

void ThreadPool::wait_for_work(std::uint32_t seen_generation) {
  const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen_generation; };
  if (!spin_until(changed)) generation_.wait(seen_generation, std::memory_order_acquire);
}

void ThreadPool::work(std::int32_t thread) {
  const DenormalsOff denormals_off;
  std::uint32_t generation = 0;
  for (;;) {
    wait_for_work(generation);
    generation = generation_.load(std::memory_order_acquire);
    if (generation == kStop) return;
    const std::int32_t taken = take_tasks(thread);
    if (taken == 0) continue;
    done_.fetch_add(taken, std::memory_order_acq_rel);
    done_.notify_one();
  }
}

}  // namespace mortise::cpu
