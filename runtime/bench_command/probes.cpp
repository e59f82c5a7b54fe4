#include "bench_command/probes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "error.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mortise::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleSeconds = 0.02;  // long compared with the start of a thread, short compared with a measurement
constexpr std::size_t kStride = 512;     // bytes of one round of the reading loops
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// This is more than any cache that this process has for itself. Still more would measure the same, and take memory from
// the model.
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

std::uint64_t read_words(const std::byte* p, std::size_t bytes) {
  std::uint64_t any[8] = {};
  for (std::size_t i = 0; i < bytes; i += sizeof any) {
    std::uint64_t words[8];
    std::memcpy(words, p + i, sizeof words);
    for (int j = 0; j < 8; ++j) any[j] |= words[j];
  }
  return any[0] | any[1] | any[2] | any[3] | any[4] | any[5] | any[6] | any[7];
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) std::uint64_t read_avx2(const std::byte* p, std::size_t bytes) {
  __m256i any[8] = {};
  for (std::size_t i = 0; i < bytes; i += sizeof any) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      any[j] = _mm256_or_si256(any[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(p + i) + j));
    }
  }
  std::uint64_t words[sizeof any / 8];
  std::memcpy(words, any, sizeof any);
  return std::accumulate(std::begin(words), std::end(words), std::uint64_t{0}, std::bit_or<>());
}

__attribute__((target("avx512f"))) std::uint64_t read_avx512(const std::byte* p, std::size_t bytes) {
  __m512i any[8] = {};
  for (std::size_t i = 0; i < bytes; i += sizeof any) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      any[j] = _mm512_or_si512(any[j], _mm512_load_si512(reinterpret_cast<const __m512i*>(p + i) + j));
    }
  }
  std::uint64_t words[sizeof any / 8];
  std::memcpy(words, any, sizeof any);
  return std::accumulate(std::begin(words), std::end(words), std::uint64_t{0}, std::bit_or<>());
}
#endif

}  // namespace

// Counts from the fastest of a few trials on one thread: an interrupted trial says nothing, and too few repeats would
// measure the start of threads.
std::size_t repeats_of_sample(const std::function<void()>& body) {
  double fastest = kSampleSeconds;
  for (int trial = 0; trial < 3; ++trial) {
    const auto start = Clock::now();
    body();
    fastest = std::min(fastest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return static_cast<std::size_t>(std::ceil(kSampleSeconds / std::max(fastest, 1e-9)));
}

std::uint64_t read_bytes(const std::byte* p, std::size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return read_avx512(p, bytes);
  if (__builtin_cpu_supports("avx2")) return read_avx2(p, bytes);
#endif
  return read_words(p, bytes);
}

double run_on_threads(std::size_t num_threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> waiting{0}, done{0};
  std::atomic<bool> go{false};
  std::vector<std::jthread> helpers;
  for (std::size_t t = 1; t < num_threads; ++t) {
    helpers.emplace_back([&, t] {
      waiting.fetch_add(1);
      // Yields, because there may be fewer processors than threads.
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      body(t);
      done.fetch_add(1, std::memory_order_release);
    });
  }
  while (waiting.load() + 1 < num_threads) std::this_thread::yield();
  const auto start = Clock::now();
  go.store(true, std::memory_order_release);
  body(0);
  while (done.load(std::memory_order_acquire) + 1 < num_threads) std::this_thread::yield();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ReadProbe::ReadProbe(std::size_t bytes, std::size_t num_threads) : num_threads_(num_threads) {
  part_bytes_ = std::max(std::min(bytes, kMaxBytes) / num_threads / kStride, std::size_t{1}) * kStride;
  mapped_bytes_ = this->bytes() + kHugePage;
  void* mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    fail("bench: no {} MiB to measure the memory's bandwidth in; free some memory", mapped_bytes_ >> 20);
  }
  mapping_ = static_cast<std::byte*>(mapping);
  memory_ = mapping_ + (kHugePage - reinterpret_cast<std::uintptr_t>(mapping) % kHugePage) % kHugePage;
  ::madvise(memory_, this->bytes(), MADV_HUGEPAGE);
  // Writes the memory, because pages that were only read all map to the zero page. Each share is written by the thread
  // that reads it.
  run_on_threads(num_threads_, [&](std::size_t t) { std::memset(memory_ + t * part_bytes_, 1, part_bytes_); });
  std::uint64_t any = 0;
  passes_ = repeats_of_sample([&] { any |= read_bytes(memory_, part_bytes_); });
  asm volatile("" ::"r"(any));
}

ReadProbe::~ReadProbe() {
  ::munmap(mapping_, mapped_bytes_);
}

double ReadProbe::bytes_per_s() {
  const double seconds = run_on_threads(num_threads_, [&](std::size_t t) {
    for (std::size_t pass = 0; pass < passes_; ++pass) {
      const std::uint64_t any = read_bytes(memory_ + t * part_bytes_, part_bytes_);
      asm volatile("" ::"r"(any) : "memory");  // keeps the compiler from reusing one pass for all
    }
  });
  return static_cast<double>(bytes()) * static_cast<double>(passes_) / seconds;
}

double unit_operations_per_s(Unit unit, std::size_t num_threads) {
  constexpr std::size_t kTrialRounds = 2000;
  const std::size_t rounds = kTrialRounds * repeats_of_sample([&] { run_unit(unit, kTrialRounds); });
  std::atomic<double> operations{0};
  const double seconds =
      run_on_threads(num_threads, [&](std::size_t) { operations.fetch_add(run_unit(unit, rounds)); });
  return operations / seconds;
}

ProcessorProbes::ProcessorProbes(std::size_t working_set_bytes, std::size_t num_threads, std::optional<Unit> unit,
                                 double share)
    : share_(share), read_(working_set_bytes, num_threads), num_threads_(num_threads), unit_(unit) {}

Limits ProcessorProbes::sample() {
  Limits limits;
  limits.read_bytes_per_s = share_ * read_.bytes_per_s();
  if (unit_) limits.operations_per_s = share_ * unit_operations_per_s(*unit_, num_threads_);
  return limits;
}

std::size_t ProcessorProbes::working_set_bytes() const {
  return static_cast<std::size_t>(share_ * static_cast<double>(read_.bytes()));
}

std::optional<std::string> ProcessorProbes::unit() const {
  if (!unit_) return std::nullopt;
  return unit_name(*unit_);
}

}  // namespace mortise::bench
