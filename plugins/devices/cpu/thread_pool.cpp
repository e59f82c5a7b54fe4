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

}  // namespace

ThreadPool::ThreadPool(int num_threads) : shares_(std::make_unique<Share[]>(static_cast<std::size_t>(num_threads))) {
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {  // no more threads: those that started must end before their members do
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
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
  const int threads = num_threads();
  for (int i = 0; i < threads; ++i) {
    const auto boundary = [&](std::int64_t j) { return static_cast<std::int32_t>(num_tasks * j / threads); };
    shares_[static_cast<std::size_t>(i)].next.store(boundary(i), std::memory_order_relaxed);
    shares_[static_cast<std::size_t>(i)].end = boundary(i + 1);
  }
  open_.store(true, std::memory_order_release);
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  generation_.store(generation == kStop ? 0 : generation, std::memory_order_release);
  generation_.notify_all();  // a load when nobody sleeps

  take_tasks(0);
  open_.store(false, std::memory_order_seq_cst);  // before the load of active_, as in work() the other way round
  const auto all_left = [&] { return active_.load(std::memory_order_seq_cst) == 0; };
  while (!spin_until(all_left)) {
    const std::int32_t seen = active_.load(std::memory_order_seq_cst);
    if (seen != 0) active_.wait(seen, std::memory_order_seq_cst);
  }
}

void ThreadPool::take_tasks(std::int32_t thread) {
  const std::int32_t threads = num_threads();
  for (std::int32_t i = 0; i < threads; ++i) {
    Share& share = shares_[static_cast<std::size_t>((thread + i) % threads)];
    while (share.next.load(std::memory_order_relaxed) < share.end) {  // else late workers would count next up for ever
      const std::int32_t task = share.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= share.end) break;
      task_(context_, task, thread);
    }
  }
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
    active_.fetch_add(1, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) take_tasks(thread);
    if (active_.fetch_sub(1, std::memory_order_seq_cst) == 1) active_.notify_one();
  }
}

}  // namespace mortise::cpu
