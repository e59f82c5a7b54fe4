#include "limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "bench_command/peak.hpp"
#include "bench_command/probes.hpp"

namespace mortise::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Unit unit_of(cpu::Isa isa) {
  switch (isa) {
    case cpu::Isa::kAmx:
      return Unit::kAmxBf16;
    case cpu::Isa::kAvx512:
      return Unit::kAvx512Fma;
    case cpu::Isa::kAvx2:
      return Unit::kAvx2Fma;
    case cpu::Isa::kNeon:
      return Unit::kNeonFma;
    case cpu::Isa::kPortable:
      break;
  }
  return Unit::kF32;
}

std::optional<Unit> int8_unit_of(cpu::Isa isa) {
  switch (isa) {
    case cpu::Isa::kAmx:
      return Unit::kAmxInt8;
    case cpu::Isa::kAvx512:
      return Unit::kAvx512Int8;
    case cpu::Isa::kAvx2:
      return Unit::kAvx2Int8;
    case cpu::Isa::kNeon:
      return Unit::kNeonInt8;
    case cpu::Isa::kPortable:
      break;
  }
  return std::nullopt;
}

double peak_per_s(Unit unit, std::size_t threads) {
  constexpr std::size_t kRounds = 20000;
  const double operations = run_unit(unit, kRounds);
  const double seconds = fastest_round(threads, 0.3, [&](std::size_t, std::size_t) { run_unit(unit, kRounds); });
  return operations * static_cast<double>(threads) / seconds;
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
  constexpr std::size_t kTurn = 512, kAlignment = 64;
  constexpr std::size_t kBytes = std::size_t{192} << 20;  // beyond every cache
  constexpr std::size_t kRound = std::size_t{6} << 20;
  const std::size_t part = kRound / threads / kTurn * kTurn;
  std::vector<std::byte> memory(kBytes + kAlignment, std::byte{1});
  const std::byte* first = memory.data() + kAlignment - reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment;
  const double seconds = fastest_round(threads, 0.5, [&](std::size_t t, std::size_t round) {
    const std::uint64_t any = read_bytes(first + round % (kBytes / kRound) * kRound + t * part, part);
    asm volatile("" ::"r"(any));
  });
  return static_cast<double>(part * threads) / seconds;
}

double peak_flop_per_s(cpu::Isa isa, std::size_t threads) {
  available_units();  // asks for the tiles
  return peak_per_s(unit_of(isa), threads);
}

double peak_int8_per_s(cpu::Isa isa, std::size_t threads) {
  const std::vector<Unit>& available = available_units();
  const std::optional<Unit> unit = int8_unit_of(isa);
  const bool there = unit && std::find(available.begin(), available.end(), *unit) != available.end();
  return there ? peak_per_s(*unit, threads) : 0;
}

}  // namespace mortise::bench
