// linear_bench: speed of linear, class cpu-bf16/1, beside the floor of the same run.
// usage: linear_bench [isa ...]   (without: all that the machine has but portable)
// Shapes: the products of a Llama of 160 M parameters. The floor of a call is the larger of two times: weights over the
// memory bandwidth, operations over the peak. `ratio` is floor / measured: 1 is the end. Each product walks through
// copies of its weights that together exceed the caches, as layers do. Times are those of the fastest of many calls.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear_pack.hpp"
#include "limits.hpp"

namespace {

using namespace mortise;

struct Shape {
  std::size_t n, k;
};
constexpr Shape kShapes[] = {{768, 768}, {3072, 768}, {768, 3072}, {32000, 768}};
constexpr std::size_t kRows[] = {1, 8, 32, 256, 1024};
constexpr std::size_t kWeightBytes = std::size_t{192} << 20;  // beyond every cache

template <class T>
T* aligned(std::vector<char>& memory, std::size_t count) {
  memory.resize(count * sizeof(T) + 64);
  return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
}

void fill(cpu::Bf16* p, std::size_t n) {
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    p[i] = static_cast<cpu::Bf16>(0x3f80u ^ (state >> 16 & 0x807fu));  // +-[1, 2)
  }
}

// Seconds per product.
double measure(const cpu::LinearKernel& kernel, Shape s, std::size_t m, std::size_t threads) {
  const std::size_t bytes = cpu::packed_bytes_bf16(s.n, s.k);
  // Many rows use each weight often: there where the weights come from does not matter.
  const std::size_t copies = m <= 32 ? std::max<std::size_t>(2, kWeightBytes / bytes) : 2;
  std::vector<char> weight_memory, x_memory, y_memory, scratch_memory;
  auto* weights = aligned<cpu::Bf16>(weight_memory, copies * bytes / 2);
  auto* x = aligned<cpu::Bf16>(x_memory, m * s.k);
  fill(weights, copies * bytes / 2);
  fill(x, m * s.k);
  cpu::LinearArgs args = {};
  args.x = x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y_stride = s.n;
  args.y = aligned<cpu::Bf16>(y_memory, m * s.n);
  args.scratch = aligned<char>(scratch_memory, kernel.scratch_bytes(m, s.k) * threads);
  const std::size_t per_thread = (s.n / 16 + threads - 1) / threads * 16;
  return bench::fastest_round(threads, 0.3, [&](std::size_t t, std::size_t round) {
    // Each thread prepares x for itself: for few rows that is cheaper than waiting for another.
    cpu::LinearArgs own = args;
    own.scratch = static_cast<char*>(args.scratch) + t * kernel.scratch_bytes(m, s.k);
    own.w = weights + round % copies * bytes / 2;
    kernel.prepare(own, 0, m);
    kernel.run(own, {0, m, std::min(t * per_thread, s.n), std::min((t + 1) * per_thread, s.n)});
  });
}

void run(cpu::Isa isa, std::size_t threads, double bandwidth) {
  const double peak = bench::peak_flop_per_s(isa, threads);
  std::printf("\n%s, %zu thread%s: read %.1f GB/s, peak %.1f GFLOP/s\n", cpu::isa_name(isa), threads,
              threads == 1 ? "" : "s", bandwidth * 1e-9, peak * 1e-9);
  std::printf("%12s %6s %10s %9s %8s %7s %12s\n", "N x K", "M", "us", "GFLOP/s", "GB/s", "ratio", "rows/s vs M=1");
  for (const Shape& s : kShapes) {
    double one_row = 0;
    for (std::size_t m : kRows) {
      const double seconds = measure(cpu::kernels(isa).linear_bf16.to_bf16, s, m, threads);
      const double bytes = static_cast<double>(cpu::packed_bytes_bf16(s.n, s.k));
      const double operations = 2.0 * static_cast<double>(m * s.n * s.k);
      if (m == 1) one_row = seconds;
      const double floor = std::max(m <= 32 ? bytes / bandwidth : 0, operations / peak);
      char name[32];
      std::snprintf(name, sizeof name, "%zu x %zu", s.n, s.k);
      std::printf("%12s %6zu %10.1f %9.1f %8.2f %7.2f %12.2f\n", name, m, seconds * 1e6, operations / seconds * 1e-9,
                  bytes / seconds * 1e-9, floor / seconds, static_cast<double>(m) * one_row / seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<cpu::Isa> isas;
  for (int i = 1; i < argc; ++i) {
    std::string error;
    const auto isa = cpu::choose_isa(argv[i], error);
    if (!isa) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 1;
    }
    isas.push_back(*isa);
  }
  if (isas.empty()) {
    for (cpu::Isa isa : cpu::available_isas()) {
      if (isa != cpu::Isa::kPortable) isas.push_back(isa);
    }
  }
  for (std::size_t threads : {1, 2}) {
    const double bandwidth = bench::memory_read_bytes_per_s(threads);
    for (cpu::Isa isa : isas) run(isa, threads, bandwidth);
  }
}
