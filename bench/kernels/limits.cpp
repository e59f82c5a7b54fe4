#include "limits.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace mortise::cpu {
// Each does `rounds` rounds of independent multiply-adds in registers and returns how many operations a round has.
namespace isa_portable {
double fma_rounds(std::size_t rounds);
}
#if defined(__x86_64__)
namespace isa_avx2 {
double fma_rounds(std::size_t rounds);
}
namespace isa_avx512 {
double fma_rounds(std::size_t rounds);
}
#endif
}  // namespace mortise::cpu

namespace mortise::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

#if defined(__x86_64__)
double tile_rounds(std::size_t rounds) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  asm volatile("ldtilecfg %0" ::"m"(config));
  for (std::size_t i = 0; i < rounds; ++i) {
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm6, %%tmm5, %%tmm1\n"
        "tdpbf16ps %%tmm7, %%tmm4, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n" ::);
  }
  asm volatile("tilerelease");
  return 4 * 2.0 * 16 * 16 * 32;
}
#endif

double rounds_on(cpu::Isa isa, std::size_t rounds) {
#if defined(__x86_64__)
  if (isa == cpu::Isa::kAmx) return tile_rounds(rounds);
  if (isa == cpu::Isa::kAvx512) return cpu::isa_avx512::fma_rounds(rounds);
  if (isa == cpu::Isa::kAvx2) return cpu::isa_avx2::fma_rounds(rounds);
#endif
  (void)isa;
  return cpu::isa_portable::fma_rounds(rounds);
}

}  // namespace

double fastest_round(std::size_t threads, double seconds, const std::function<void(std::size_t, std::size_t)>& body) {
  std::atomic<std::size_t> arrived{0}, round{0};
  std::atomic<bool> stop{false};
  // The threads spin between rounds, as a decoding engine's pool does: waking one up costs more than a small product.
  std::vector<std::jthread> helpers;
  for (std::size_t t = 1; t < threads; ++t) {
    helpers.emplace_back([&, t] {
      cpu::DenormalsOff off;
      for (std::size_t seen = 0;; ++seen) {
        while (round.load(std::memory_order_acquire) == seen) {
          if (stop.load(std::memory_order_relaxed)) return;
        }
        body(t, seen);
        arrived.fetch_add(1, std::memory_order_release);
      }
    });
  }
  cpu::DenormalsOff off;
  double fastest = 1e30;
  const auto begin = Clock::now();
  for (std::size_t done = 0; done < 3 || since(begin) < seconds; ++done) {
    arrived.store(0, std::memory_order_relaxed);
    const auto start = Clock::now();
    round.fetch_add(1, std::memory_order_release);
    body(0, done);
    while (arrived.load(std::memory_order_acquire) + 1 < threads) {
    }
    const double elapsed = since(start);
    if (elapsed < fastest) fastest = elapsed;
  }
  stop.store(true);
  return fastest;
}

double memory_read_bytes_per_s(std::size_t threads) {
  constexpr std::size_t kWords = (std::size_t{192} << 20) / sizeof(std::uint64_t);  // beyond every cache
  constexpr std::size_t kPart = (std::size_t{6} << 20) / sizeof(std::uint64_t);     // a round's
  const std::vector<std::uint64_t> memory(kWords, 1);
  std::atomic<std::uint64_t> sink{0};
  const double seconds = fastest_round(threads, 0.5, [&](std::size_t t, std::size_t round) {
    const std::size_t first = round % (kWords / kPart) * kPart;
    std::uint64_t sums[8] = {};
    for (std::size_t i = first + kPart / threads * t; i + 8 <= first + kPart / threads * (t + 1); i += 8) {
      __builtin_prefetch(&memory[i] + 256);
      for (std::size_t j = 0; j < 8; ++j) sums[j] += memory[i + j];
    }
    sink += sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
  });
  return static_cast<double>(kPart * sizeof(std::uint64_t)) / seconds;
}

double peak_flop_per_s(cpu::Isa isa, std::size_t threads) {
  constexpr std::size_t kRounds = 20000;
  const double operations = rounds_on(isa, 1);
  const double seconds = fastest_round(threads, 0.3, [&](std::size_t, std::size_t) { rounds_on(isa, kRounds); });
  return operations * kRounds * static_cast<double>(threads) / seconds;
}

}  // namespace mortise::bench
