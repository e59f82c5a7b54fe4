// linear_bench: speed of linear, class cpu-bf16/1, beside the floor of the same run.
// usage: linear_bench [isa ...]   (without: all that the machine has but portable)
// Shapes: the products of a Llama of 160 M parameters; to f32 the head, and the slice of it that scores take at a time.
// The floor of a call is the larger of two times: weights over the memory bandwidth, operations over the peak. `ratio`
// is floor / measured: 1 is the end. Each product walks through copies of its weights that together exceed the caches,
// as layers do. Times are those of the fastest of many calls.
#include <algorithm>
#include <cstdio>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "limits.hpp"
#include "linear_input.hpp"

namespace {

using namespace mortise;
using bench::Shape;

struct Product {
  Shape shape;
  cpu::LinearKernel cpu::LinearBf16Kernels::*kernel;
};
constexpr auto kToBf16 = &cpu::LinearBf16Kernels::to_bf16, kToF32 = &cpu::LinearBf16Kernels::to_f32;
constexpr Product kProducts[] = {{{768, 768}, kToBf16},
                                 {{3072, 768}, kToBf16},
                                 {{768, 3072}, kToBf16},
                                 {{32000, 768}, kToF32},
                                 {{2048, 768}, kToF32}};
constexpr std::size_t kRows[] = {1, 8, 32, 64, 256, 1024};
constexpr double kSeconds = 0.3;  // of each product

void run(cpu::Isa isa, cpu::SumOrder order, std::size_t threads, double bandwidth) {
  const double peak = bench::peak_flop_per_s(isa, threads);
  std::printf("\n%s, %s, %zu thread%s: read %.1f GB/s, peak %.1f GFLOP/s\n", cpu::isa_name(isa), bench::name_of(order),
              threads, threads == 1 ? "" : "s", bandwidth * 1e-9, peak * 1e-9);
  std::printf("%12s %6s %10s %9s %8s %7s %12s\n", "N x K", "M", "us", "GFLOP/s", "GB/s", "ratio", "rows/s vs M=1");
  for (const auto& [s, kernel] : kProducts) {
    double one_row = 0;
    for (std::size_t m : kRows) {
      const double seconds = bench::measure_bf16(cpu::bf16_kernels(isa, order).linear.*kernel, s, m, threads, kSeconds);
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
  const auto isas = bench::isas_named({argv + 1, argv + argc});
  if (!isas) return 1;
  for (std::size_t threads : {1, 2}) {
    const double bandwidth = bench::memory_read_bytes_per_s(threads);
    for (cpu::Isa isa : *isas) {
      for (const cpu::SumOrder order : bench::kSumOrders) run(isa, order, threads, bandwidth);
    }
  }
}
