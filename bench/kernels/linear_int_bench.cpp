// linear_int_bench: speed of linear with quantised weights beside the same product in bf16.
// usage: linear_int_bench [threads] [isa ...]   (without: 1 thread, all that the machine has but portable)
//        linear_int_bench prefill [isa ...]     many rows, 1 and 2 threads, beside the peak of the unit
// Each product walks through copies of its weights that together exceed the caches, as layers do. The time includes the
// quantisation of x. Times are those of the fastest of many calls; `x` is how many times faster than bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/linear_int/pack.hpp"
#include "limits.hpp"
#include "linear_input.hpp"

namespace {

using namespace mortise;
using bench::Shape;

constexpr Shape kShapes[] = {{3072, 768}, {4096, 4096}};
constexpr std::size_t kRows[] = {1, 2, 4, 8, 16, 32, 128, 1024};
constexpr Shape kPrefillShapes[] = {{768, 768}, {2304, 768}, {6144, 768}, {768, 3072}};
constexpr std::size_t kPrefillRows[] = {1024, 2048};
constexpr std::size_t kRow = 32768;  // a group as long as a row
constexpr double kSeconds = 0.1;     // of each product

// Weights of a product, several copies.
struct IntWeights {
  IntWeights(Shape s, std::size_t m, cpu::IntFormat f)
      : format(f), bytes(cpu::packed_bytes_int(s.n, s.k, f.bits)), copies(bench::copies_of(bytes, m)) {
    entries = s.n * cpu::groups_of(s.k, f.group_size);
    values = bench::aligned<std::uint8_t>(value_memory, copies * bytes);
    scales = bench::aligned<float>(scale_memory, copies * entries);
    zeros = bench::aligned<std::uint8_t>(zero_memory, copies * entries);
    for (std::size_t i = 0; i < copies * bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    std::fill_n(scales, copies * entries, 0.01f);
    std::fill_n(zeros, copies * entries, f.bits == 4 ? std::uint8_t{7} : std::uint8_t{128});
  }
  cpu::LinearIntArgs args(const bench::Input& in, Shape s, std::size_t m, std::size_t round) const {
    cpu::LinearIntArgs args = {};
    args.x = in.x, args.x_stride = s.k, args.m = m, args.n = s.n, args.k = s.k, args.y = in.y, args.y_stride = s.n;
    args.format = format;
    args.values = values + round % copies * bytes;
    args.scales = scales + round % copies * entries;
    args.zeros = zeros + round % copies * entries;
    return args;
  }

  cpu::IntFormat format;
  std::size_t bytes, copies, entries;
  std::vector<char> value_memory, scale_memory, zero_memory;
  std::uint8_t* values;
  float* scales;
  std::uint8_t* zeros;
};

double measure_int(const cpu::LinearIntKernels& kernels, Shape s, std::size_t m, std::size_t threads,
                   cpu::IntFormat format) {
  const bench::Input in(s, m);
  const IntWeights weights(s, m, format);
  const bench::Scratch scratch(kernels.scratch_bytes(m, s.k, format.group_size), threads);
  const std::size_t each = bench::columns_per_thread(s.n, threads);
  return bench::fastest_round(threads, kSeconds, [&](std::size_t t, std::size_t round) {
    cpu::LinearIntArgs args = weights.args(in, s, m, round);
    args.scratch = scratch.of(t);
    kernels.prepare_bf16(args, 0, m);
    kernels.to_bf16(args, {0, m, std::min(t * each, s.n), std::min((t + 1) * each, s.n)});
  });
}

// The rows are shared out, as they are in a prefill; `rows_only`: only made int8.
double measure_prefill(const cpu::LinearIntKernels& kernels, Shape s, std::size_t m, std::size_t threads,
                       cpu::IntFormat format, bool rows_only) {
  const bench::Input in(s, m);
  const IntWeights weights(s, m, format);
  const bench::Scratch scratch(kernels.scratch_bytes(m, s.k, format.group_size), 1);
  const std::size_t each = m / threads;
  return bench::fastest_round(threads, kSeconds, [&](std::size_t t, std::size_t round) {
    cpu::LinearIntArgs args = weights.args(in, s, m, round);
    args.scratch = scratch.of(0);
    kernels.prepare_bf16(args, t * each, (t + 1) * each);
    if (!rows_only) kernels.to_bf16(args, {t * each, (t + 1) * each, 0, s.n});
  });
}

void run_prefill(cpu::Isa isa, std::size_t threads) {
  const double peak = bench::peak_int8_per_s(isa, threads);
  std::printf("\n%s, %zu thread%s, peak of int8 %.2f TOP/s; ratios are to it\n", cpu::isa_name(isa), threads,
              threads == 1 ? "" : "s", peak * 1e-12);
  std::printf("%12s %6s %10s %6s | %10s %6s %9s | %10s %6s | %10s %6s\n", "N x K", "M", "bf16 us", "ratio", "int8 us",
              "ratio", "rows us", "int4/128", "ratio", "int4/64", "ratio");
  const cpu::LinearIntKernels& kernels = cpu::kernels(isa).linear_int;
  for (const Shape& s : kPrefillShapes) {
    for (const std::size_t m : kPrefillRows) {
      const double least = peak == 0 ? 0 : 2.0 * static_cast<double>(m * s.n * s.k) / peak;
      const double bf16 =
          bench::measure_bf16(cpu::bf16_kernels(isa, cpu::preferred_order()).linear.to_bf16, s, m, threads, kSeconds);
      const double int8 = measure_prefill(kernels, s, m, threads, {8, kRow}, /*rows_only=*/false);
      const double rows = measure_prefill(kernels, s, m, threads, {8, kRow}, /*rows_only=*/true);
      const double of_128 = measure_prefill(kernels, s, m, threads, {4, 128}, /*rows_only=*/false);
      const double of_64 = measure_prefill(kernels, s, m, threads, {4, 64}, /*rows_only=*/false);
      char name[32];
      std::snprintf(name, sizeof name, "%zu x %zu", s.n, s.k);
      std::printf("%12s %6zu %10.1f %6.2f | %10.1f %6.2f %9.1f | %10.1f %6.2f | %10.1f %6.2f\n", name, m, bf16 * 1e6,
                  least / bf16, int8 * 1e6, least / int8, rows * 1e6, of_128 * 1e6, least / of_128, of_64 * 1e6,
                  least / of_64);
      std::fflush(stdout);
    }
  }
}

void run(cpu::Isa isa, std::size_t threads, double bandwidth) {
  std::printf("\n%s, %zu thread%s, reads %.1f GB/s\n", cpu::isa_name(isa), threads, threads == 1 ? "" : "s",
              bandwidth * 1e-9);
  std::printf("%12s %6s %10s | %10s %7s %6s | %10s %7s %6s | %10s %7s %6s\n", "N x K", "M", "bf16 us", "int8 us",
              "GB/s", "x", "int4/64 us", "GB/s", "x", "int4/128", "GB/s", "x");
  const cpu::IntFormat formats[] = {{8, kRow}, {4, 64}, {4, 128}};
  for (const Shape& s : kShapes) {
    for (const std::size_t m : kRows) {
      const double bf16 =
          bench::measure_bf16(cpu::bf16_kernels(isa, cpu::preferred_order()).linear.to_bf16, s, m, threads, kSeconds);
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
  const bool prefill = argc > 1 && std::strcmp(argv[1], "prefill") == 0;
  const std::size_t threads = argc > 1 ? static_cast<std::size_t>(std::max(1, std::atoi(argv[1]))) : 1;
  const auto isas = bench::isas_named({argv + std::min(argc, 2), argv + argc});
  if (!isas) return 1;
  if (prefill) {
    for (const std::size_t n : {1, 2}) {
      for (const cpu::Isa isa : *isas) run_prefill(isa, n);
    }
    return 0;
  }
  const double bandwidth = bench::memory_read_bytes_per_s(threads);
  for (const cpu::Isa isa : *isas) run(isa, threads, bandwidth);
}
