// pool_bench: what it costs to hand out work to the CPU device's thread pool.
// usage: pool_bench [threads ...]   (without: 1, 2 and 8)
//   empty          a run of one empty task per thread, again and again: what the caller pays
//   2 us           a run of one task of 2 us per usable processor, again and again: above 2 is what the pool adds
//   after N us     the same after the caller worked N us alone: workers spin, or have gone to sleep and are woken
//   8 x 20 us      160 us of work cut in 8; `ideal` is the time that it would take on the usable processors
// Microseconds: the fastest tenth's upper end, the median, and the ninth tenth's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "devices/cpu/machine.hpp"
#include "devices/cpu/thread_pool.hpp"

namespace {

using mortise::cpu::ThreadPool;
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void work_for(double microseconds) {
  for (const auto begin = Clock::now(); microseconds_since(begin) < microseconds;) {
  }
}

struct Times {
  double fast, median, slow;
};

template <typename F>
Times times_of(int rounds, double gap_us, F f) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    if (gap_us > 0) work_for(gap_us);
    const auto begin = Clock::now();
    f();
    times.push_back(microseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 10], times[times.size() / 2], times[times.size() / 10 * 9]};
}

// Work that does not read a clock, so that it takes longer where threads share a processor.
double spin_work(int iterations) {
  alignas(64) volatile double x[8] = {1};  // on its own cache line, away from stack data that the threads share
  for (int i = 0; i < iterations; ++i) x[0] = x[0] * 1.0000001;
  return x[0];
}

// Returns the iterations of spin_work that take a microsecond on a processor that nobody else uses.
int iterations_of_a_microsecond() {
  constexpr int kMany = 1 << 16;
  const Times times = times_of(100, 0, [] { spin_work(kMany); });
  return static_cast<int>(kMany / times.fast);
}

void measure(int threads, int iterations) {
  ThreadPool pool(threads, mortise::cpu::usable_cpus());
  const int processors = std::min(threads, mortise::cpu::usable_cpus());
  const auto row = [&](const std::string& what, Times t) {
    std::printf("%2d threads  %-16s %8.2f %8.2f %8.2f\n", threads, what.c_str(), t.fast, t.median, t.slow);
  };
  const auto run = [&](std::int32_t tasks, int iterations) {
    pool.for_each(tasks, [&](std::int32_t, std::int32_t) { spin_work(iterations); });
  };
  times_of(2000, 0, [&] { run(threads, 0); });
  row("empty", times_of(100000, 0, [&] { run(threads, 0); }));
  row("2 us", times_of(50000, 0, [&] { run(processors, 2 * iterations); }));
  for (const int gap : {5, 20, 40, 100, 1000}) {
    const int rounds = gap < 100 ? 5000 : 500;
    row("2 us after " + std::to_string(gap), times_of(rounds, gap, [&] { run(processors, 2 * iterations); }));
  }
  constexpr int kTasks = 8, kTaskUs = 20;
  row("8 x 20 us", times_of(2000, 0, [&] { run(kTasks, kTaskUs * iterations); }));
  std::printf("%2d threads  %-16s %8d\n", threads, "  ideal", kTaskUs * ((kTasks + processors - 1) / processors));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> threads;
  for (int i = 1; i < argc; ++i) threads.push_back(std::max(1, std::atoi(argv[i])));
  if (threads.empty()) threads = {1, 2, 8};
  const int iterations = iterations_of_a_microsecond();
  std::printf("                            fast   median     slow   (us)\n");
  for (const int n : threads) measure(n, iterations);
}
