// linear_int_bench: speed of linear with quantised weights beside the same product in bf16.
// usage: linear_int_bench [threads] [isa ...]   (without: 1 thread, all that the machine has but portable)
// Each product walks through copies of its weights that together exceed the caches, as layers do. The time includes the
// quantisation of x. Times are those of the fastest of many calls; `x` is how many times faster than bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear_int_pack.hpp"
#include "limits.hpp"
#include "linear_input.hpp"

namespace {

using namespace mortise;
using bench::Shape;

constexpr Shape kShapes[] = {{3072, 768}, {4096, 4096}};
constexpr std::size_t kRows[] = {1, 2, 4, 8, 16, 32, 128, 1024};
constexpr double kSeconds = 0.1;  // of each product

double measure_int(const cpu::LinearIntKernels& kernels, Shape s, std::size_t m, std::size_t threads,
                   cpu::IntFormat format) {
  const bench::Input in(s, m);
  const std::size_t bytes = cpu::packed_bytes_int(s.n, s.k, format.bits), copies = bench::copies_of(bytes, m);
  const std::size_t entries = s.n * cpu::groups_of(s.k, format.group_size);
  std::vector<char> value_memory, scale_memory, zero_memory;
  auto* values = bench::aligned<std::uint8_t>(value_memory, copies * bytes);
  auto* scales = bench::aligned<float>(scale_memory, copies * entries);
  auto* zeros = bench::aligned<std::uint8_t>(zero_memory, copies * entries);
  for (std::size_t i = 0; i < copies * bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  std::fill_n(scales, copies * entries, 0.01f);
  std::fill_n(zeros, copies * entries, format.bits == 4 ? std::uint8_t{7} : std::uint8_t{128});
  const bench::Scratch scratch(kernels.scratch_bytes(m, s.k, format.group_size), threads);
  const std::size_t each = bench::columns_per_thread(s.n, threads);
  return bench::fastest_round(threads, kSeconds, [&](std::size_t t, std::size_t round) {
    cpu::LinearIntArgs args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.format = format;
    args.scratch = scratch.of(t);
    args.values = values + round % copies * bytes;
    args.scales = scales + round % copies * entries;
    args.zeros = zeros + round % copies * entries;
    kernels.prepare_bf16(args, 0, m);
    kernels.to_bf16(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

void run(cpu::Isa isa, std::size_t threads, double bandwidth) {
  std::printf("\n%s, %zu thread%s, reads %.1f GB/s\n", cpu::isa_name(isa), threads, threads == 1 ? "" : "s",
              bandwidth * 1e-9);
  std::printf("%12s %6s %10s | %10s %7s %6s | %10s %7s %6s | %10s %7s %6s\n", "N x K", "M", "bf16 us", "int8 us",
              "GB/s", "x", "int4/64 us", "GB/s", "x", "int4/128", "GB/s", "x");
  constexpr std::size_t kRow = 32768;
  const cpu::IntFormat formats[] = {{8, kRow}, {4, 64}, {4, 128}};
  for (const Shape& s : kShapes) {
    for (const std::size_t m : kRows) {
      const double bf16 = bench::measure_bf16(cpu::kernels(isa).linear_bf16.to_bf16, s, m, threads, kSeconds);
      char name[32];
      std::snprintf(name, sizeof name, "%zu x %zu", s.n, s.k);
      std::printf("%12s %6zu %10.1f", name, m, bf16 * 1e6);
      for (const cpu::IntFormat& format : formats) {
        const double seconds = measure_int(cpu::kernels(isa).linear_int, s, m, threads, format);
        const double bytes = static_cast<double>(cpu::packed_bytes_int(s.n, s.k, format.bits) +
                                                 5 * s.n * cpu::groups_of(s.k, format.group_size));
        std::printf(" | %10.1f %7.1f %6.2f", seconds * 1e6, bytes / seconds * 1e-9, bf16 / seconds);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 1 ? static_cast<std::size_t>(std::max(1, std::atoi(argv[1]))) : 1;
  const auto isas = bench::isas_named({argv + std::min(argc, 2), argv + argc});
  if (!isas) return 1;
  const double bandwidth = bench::memory_read_bytes_per_s(threads);
  for (const cpu::Isa isa : *isas) run(isa, threads, bandwidth);
}
